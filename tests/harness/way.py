"""One direction of a connection through a proxy, with its delays."""

import asyncio
import contextlib
import random
import socket
import struct
from collections import deque

from headrace.lifecycle import cancel_and_wait

CHUNK_BYTES = 65_536


MAX_HELD_CHUNKS = 256
"""Most chunks that are read ahead of a delay. Beyond that the sender is slowed, as with a full socket."""


RETRY_SECONDS = 0.2
"""Seconds by which a lost packet delays itself and everything behind it: Linux's minimum retransmission timeout."""


class Way:
    """One direction of a link. All connections of the link obey it at once."""

    def __init__(self) -> None:
        self.latency = 0.0
        """Delay of every chunk, in seconds."""
        self.loss = 0.0
        """Fraction of chunks that have to be sent again."""
        self._open = asyncio.Event()
        self._open.set()

    @property
    def is_cut(self) -> bool:
        return not self._open.is_set()

    def cut(self) -> None:
        """Delivers nothing from now on."""
        self._open.clear()

    def heal(self) -> None:
        """Delivers everything that was held back, and all that follows, at once."""
        self.latency = self.loss = 0.0
        self._open.set()

    async def wait_until_open(self) -> None:
        await self._open.wait()


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
    """Copies until either side ends. A chunk never overtakes another."""
    held: deque[tuple[float, bytes]] = deque()
    arrived, taken = asyncio.Event(), asyncio.Event()
    delivering = asyncio.create_task(_deliver(held, arrived, taken, writer, way))
    clock = asyncio.get_running_loop().time
    due = 0.0
    try:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                late = RETRY_SECONDS if way.loss and random.random() < way.loss else 0.0
                due = max(due, clock() + way.latency + late)
                held.append((due, data))
                arrived.set()
                while len(held) >= MAX_HELD_CHUNKS and not delivering.done():
                    taken.clear()
                    await taken.wait()
        held.append((due, b""))
        arrived.set()
        await delivering
    finally:
        await cancel_and_wait([delivering])


async def _deliver(
    held: deque[tuple[float, bytes]],
    arrived: asyncio.Event,
    taken: asyncio.Event,
    writer: asyncio.StreamWriter,
    way: Way,
) -> None:
    """Writes chunks that are due, in order, up to the empty chunk that ends the stream."""
    clock = asyncio.get_running_loop().time
    try:
        while True:
            while not held:
                arrived.clear()
                await arrived.wait()
            due, data = held[0]
            await asyncio.sleep(max(0.0, due - clock()))
            await way.wait_until_open()
            held.popleft()
            taken.set()
            if not data:
                return
            writer.write(data)
            await writer.drain()
    except OSError:
        return
    finally:
        taken.set()


async def swallow(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(OSError):
        while await reader.read(CHUNK_BYTES):
            pass


def reset(writer: asyncio.StreamWriter) -> None:
    """Ends a connection with RST instead of FIN."""
    sock = writer.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
