"""A TCP proxy that imitates a bad network: slow, lossy, cut one way or both, half open or reset, switchable at run
time.

It forwards bytes only. Data that is cut off is held back and delivered when the cut heals, as TCP would after its
retries.
"""

import asyncio
from collections.abc import Callable

from tests.harness.connection import Connection, Link
from tests.harness.way import reset

from headrace.lifecycle import cancel_and_wait

CONNECT_SECONDS = 5.0


Ends = tuple[int, int]
"""Ports of a connection: source and destination."""


class TcpProxy:
    """Listens on a free loopback port and forwards connections to `target`, each over the link of its client.

    `link_of` gets the ports of the client and of the proxy, which identify clients that share the proxy.
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
        await cancel_and_wait(self._tasks)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(serving)
        # Waits without awaiting the task itself: this callback must not raise its exception, or its cancellation by
        # `close`.
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
            reset(writer)
            return
        try:
            await Connection(link, writer, target).run(reader, from_target)
        finally:
            target.transport.abort()
