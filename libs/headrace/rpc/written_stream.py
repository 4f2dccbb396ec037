"""Requests of a stream in both directions, written for as long as its answers are read."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc


@contextlib.asynccontextmanager
async def written_stream(call: Any, requests: AsyncIterator[Any]) -> AsyncIterator[None]:
    """Writes requests to a call during the block, and cancels the call at its end. gRPC's own reading of requests keeps
    waiting when a call has failed: each try to reach a service that is away would leave a task behind."""
    writing = asyncio.create_task(_write(call, requests), name="stream-writer")
    try:
        yield
    finally:
        call.cancel()
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)


async def _write(call: Any, requests: AsyncIterator[Any]) -> None:
    # The reader of the answers receives the reason why a call has ended.
    with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
        async for request in requests:
            await call.write(request)
