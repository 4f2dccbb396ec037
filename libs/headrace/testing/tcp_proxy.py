"""A TCP proxy that acts a bad network: slow, lossy, cut one way or both, half open or reset, as switched at run time.

It knows bytes only. What is cut off is held back and delivered when the cut heals, as TCP would after its retries.
"""

import asyncio
import contextlib
import random
import socket
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

CHUNK_BYTES = 65_536
MAX_HELD_CHUNKS = 256
"""Most chunks that are read ahead of a delay; then the sender feels it, as with a full socket."""
RETRY_SECONDS = 0.2
"""Delay of a lost packet, and of all behind it: the least retransmission timeout of Linux."""
CONNECT_SECONDS = 5.0


Ends = tuple[int, int]
"""Ports of a connection: the one it comes from, and the one it goes to."""


class Way:
    """One direction of a link. All connections of the link obey it at once."""

    def __init__(self) -> None:
        self.latency = 0.0
        """Seconds that every chunk is late."""
        self.loss = 0.0
        """Share of chunks that have to be sent again."""
        self._open = asyncio.Event()
        self._open.set()

    @property
    def is_cut(self) -> bool:
        return not self._open.is_set()

    def cut(self) -> None:
        """Delivers nothing from now on."""
        self._open.clear()

    def heal(self) -> None:
        """Delivers what was held back, and all that follows, at once."""
        self.latency = self.loss = 0.0
        self._open.set()

    async def wait_until_open(self) -> None:
        await self._open.wait()


@dataclass(eq=False)
class Link:
    """Connection path between two processes: a way there, from the one that connects, and a way back."""

    there: Way = field(default_factory=Way)
    back: Way = field(default_factory=Way)
    connections: "set[Connection]" = field(default_factory=set)

    def partition(self) -> None:
        """Cuts both ways. New connections are accepted and hear nothing."""
        self.cut_there()
        self.cut_back()

    def cut_there(self) -> None:
        """Delivers nothing to the side that was connected to."""
        self.there.cut()

    def cut_back(self) -> None:
        """Delivers nothing to the side that connects."""
        self.back.cut()

    def heal(self) -> None:
        self.there.heal()
        self.back.heal()

    def reset(self) -> None:
        """Ends every connection with RST on both sides."""
        for connection in list(self.connections):
            connection.reset()

    def half_open(self) -> None:
        """Ends every connection for the side that was connected to; the other side is not told."""
        for connection in list(self.connections):
            connection.forget_target()


class Connection:
    """One connection through the proxy, both halves of it."""

    def __init__(self, link: Link, client: asyncio.StreamWriter, target: asyncio.StreamWriter) -> None:
        self._link, self._client, self._target = link, client, target
        self._half_open = asyncio.Event()

    async def run(self, from_client: asyncio.StreamReader, from_target: asyncio.StreamReader) -> None:
        """Passes bytes on until either side ends."""
        self._link.connections.add(self)
        there = asyncio.create_task(_pass_on(from_client, self._target, self._link.there))
        back = asyncio.create_task(_pass_on(from_target, self._client, self._link.back))
        try:
            await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
            if self._half_open.is_set():
                there.cancel()
                await asyncio.gather(there, return_exceptions=True)
                await _swallow(from_client)
        finally:
            self._link.connections.discard(self)
            for task in (there, back):
                task.cancel()
            await asyncio.gather(there, back, return_exceptions=True)

    def reset(self) -> None:
        for writer in (self._client, self._target):
            _reset(writer)

    def forget_target(self) -> None:
        self._half_open.set()
        _reset(self._target)


class TcpProxy:
    """Listens on a free port of loopback and passes connections on to `target`, each over the link of its client.

    `link_of` gets the ports of the client and of the proxy, which tell clients apart that share the proxy.
    """

    def __init__(self, target: str, link_of: Callable[[Ends], Link]) -> None:
        self._host, _, port = target.rpartition(":")
        self._port = int(port)
        self._link_of = link_of
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = ""

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        """Ends every connection and stops listening."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(serving)
        # Waited for and not awaited: an exception, or the end of the proxy, is not this callback's to raise.
        await asyncio.wait({serving})
        self._tasks.discard(serving)
        writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = self._link_of((writer.get_extra_info("peername")[1], writer.get_extra_info("sockname")[1]))
        await link.there.wait_until_open()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                from_target, target = await asyncio.open_connection(self._host, self._port)
        except (OSError, TimeoutError):
            _reset(writer)
            return
        try:
            await Connection(link, writer, target).run(reader, from_target)
        finally:
            target.transport.abort()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
    """Copies until the end of either side. A chunk never overtakes another."""
    held: deque[tuple[float, bytes]] = deque()
    arrived, taken = asyncio.Event(), asyncio.Event()
    delivering = asyncio.create_task(_deliver(held, arrived, taken, writer, way))
    clock = asyncio.get_running_loop().time
    due = 0.0
    try:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                late = RETRY_SECONDS if way.loss and random.random() < way.loss else 0.0  # noqa: S311 - no secret
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
        delivering.cancel()
        await asyncio.gather(delivering, return_exceptions=True)


async def _deliver(
    held: deque[tuple[float, bytes]],
    arrived: asyncio.Event,
    taken: asyncio.Event,
    writer: asyncio.StreamWriter,
    way: Way,
) -> None:
    """Writes what is due, in order, up to the empty chunk that ends it."""
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


async def _swallow(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(OSError):
        while await reader.read(CHUNK_BYTES):
            pass


def _reset(writer: asyncio.StreamWriter) -> None:
    """Ends a connection with RST instead of FIN."""
    sock = writer.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
