"""A TCP proxy that cuts each connection after a chosen number of bytes."""

import asyncio
from collections.abc import Sequence

from headrace.lifecycle import cancel_and_wait

CHUNK_BYTES = 4096


class CuttingProxy:
    """Forwards connections to `target`. The first gets `limits[0]` bytes of answers and is then cut, and so on; after
    the last limit, connections are whole."""

    def __init__(self, target: str, limits: Sequence[int] = ()) -> None:
        self._host, _, port = target.rpartition(":")
        self._port = int(port)
        self.limits = list(limits)
        self.cut_count = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = ""

    async def __aenter__(self) -> "CuttingProxy":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await cancel_and_wait(self._tasks)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        limit = self.limits.pop(0) if self.limits else None
        try:
            from_target, target = await asyncio.open_connection(self._host, self._port)
        except OSError:
            writer.transport.abort()
            return
        ways = [
            asyncio.create_task(_copy(reader, target, None)),
            asyncio.create_task(_copy(from_target, writer, limit)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            self.cut_count += limit is not None and ways[1].done()
        finally:
            await cancel_and_wait(ways)
            writer.transport.abort()
            target.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int | None) -> None:
    """Copies until the reader ends, or `limit` bytes were copied."""
    left = limit
    while data := await reader.read(CHUNK_BYTES if left is None else min(CHUNK_BYTES, left)):
        writer.write(data)
        await writer.drain()
        if left is not None:
            left -= len(data)
            if left <= 0:
                return
