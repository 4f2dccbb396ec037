"""A failed call is distinguished from a canceled caller."""

import asyncio

import grpc
import pytest

from headrace.errors import Unavailable
from headrace.rpc.boundary import translated

pytestmark = pytest.mark.anyio


async def call(answer: "asyncio.Future[None]") -> None:
    with translated("dispatch"):
        await answer


async def test_a_channel_that_is_closed_under_a_call_is_a_failure_of_the_call() -> None:
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    answer.cancel()
    with pytest.raises(Unavailable) as failure:
        await call(answer)
    assert failure.value.stage == "dispatch"


async def test_a_service_that_stops_in_a_call_is_unavailable_and_no_caller_left() -> None:
    metadata = grpc.aio.Metadata()
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    answer.set_exception(grpc.aio.AioRpcError(grpc.StatusCode.CANCELLED, metadata, metadata))
    with pytest.raises(Unavailable):
        await call(answer)


async def test_a_call_that_fails_when_its_caller_is_cancelled_does_not_hide_that() -> None:
    async def fail_when_cancelled() -> None:
        with translated("dispatch"):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                metadata = grpc.aio.Metadata()
                raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, metadata, metadata) from None

    calling = asyncio.create_task(fail_when_cancelled())
    await asyncio.sleep(0)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling


async def test_a_caller_that_is_cancelled_stays_cancelled() -> None:
    calling = asyncio.create_task(call(asyncio.get_running_loop().create_future()))
    await asyncio.sleep(0)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling


async def test_a_timeout_around_a_call_stays_a_timeout() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await call(asyncio.get_running_loop().create_future())
