"""Streams to services that are away leave nothing behind, however often they are tried."""

import asyncio
import gc

import grpc
import pytest

from headrace.errors import HeadraceError
from headrace.service_clients import scheduler as module
from headrace.service_clients.scheduler import SchedulerStream
from headrace.service_clients.worker import GrpcWorkerClient
from headrace.v1.worker_pb2 import AttachRequest

pytestmark = pytest.mark.anyio
ABSENT = ["absent.invalid:9102", "127.0.0.1:1"]


async def forever() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("address", ABSENT)
async def test_a_scheduler_that_is_away_leaves_no_task(
    address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", (0.001,))
    async with grpc.aio.insecure_channel(address) as channel:
        before = asyncio.all_tasks()
        running = asyncio.create_task(SchedulerStream(channel).run())
        await asyncio.wait({running}, timeout=1.0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        gc.collect()
        await asyncio.sleep(0.05)
        assert asyncio.all_tasks() <= before
    assert [record.message for record in caplog.records if record.name == "asyncio"] == []


@pytest.mark.parametrize("address", ABSENT)
async def test_a_worker_that_is_away_leaves_no_task(address: str, caplog: pytest.LogCaptureFixture) -> None:
    async def commands():  # type: ignore[no-untyped-def]
        await forever()
        yield AttachRequest()

    async with grpc.aio.insecure_channel(address) as channel:
        before = asyncio.all_tasks()
        for _ in range(10):
            with pytest.raises(HeadraceError):
                async for _ in GrpcWorkerClient(channel).attach(commands()):
                    pass
        gc.collect()
        await asyncio.sleep(0.05)
        assert asyncio.all_tasks() <= before
    assert [record.message for record in caplog.records if record.name == "asyncio"] == []
