"""A placement leads to the incarnation that it names, even while the stream to an earlier one looks alive."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from headrace.gateway import fleet as fleet_module
from headrace.gateway.config import GatewaySettings
from headrace.gateway.fleet import Fleet
from headrace.gateway.inbox import WorkerLost
from headrace.v1.generation_pb2 import AdapterInfo, ModelInfo
from headrace.v1.scheduler_pb2 import SubmitResponse
from headrace.v1.worker_pb2 import AttachRequest, AttachResponse, WorkerHello, WorkerStatus

pytestmark = pytest.mark.anyio


class FakeChannel:
    def __init__(self, address: str) -> None:
        self.address = address

    async def close(self) -> None:
        return


class SilentWorker:
    """Says hello with the epoch that its address names, and then nothing: a half-open connection."""

    def __init__(self, channel: FakeChannel) -> None:
        self._epoch = int(channel.address)

    async def attach(self, commands: AsyncIterator[AttachRequest]) -> AsyncIterator[AttachResponse]:
        yield AttachResponse(hello=WorkerHello(worker_id="w", epoch=self._epoch))
        await asyncio.Event().wait()


def placement(epoch: int) -> SubmitResponse:
    return SubmitResponse(worker_id="w", worker_address=str(epoch), worker_epoch=epoch)


async def test_a_stream_to_an_earlier_life_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_module, "GrpcWorkerClient", SilentWorker)
    open_channel: Any = FakeChannel
    fleet = Fleet(GatewaySettings(), open_channel)
    first = await fleet.attachment_for(placement(1), 5)
    second = await fleet.attachment_for(placement(2), 5)
    assert second is not first
    assert (second.epoch, second.alive, first.alive) == (2, True, False)
    assert fleet.attached_count == 1
    with pytest.raises(WorkerLost):
        await fleet.attachment_for(placement(1), 5)
    await fleet.close()


async def test_an_adapter_is_listed_as_a_model_with_a_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_module, "GrpcWorkerClient", SilentWorker)
    open_channel: Any = FakeChannel
    fleet = Fleet(GatewaySettings(), open_channel)
    info = ModelInfo(model="m", max_model_length=64, adapters=[AdapterInfo(name="tuned", fingerprint="f")])
    fleet.observe(WorkerStatus(worker_id="w", epoch=1, version=1, address="1", model_info=info))
    tuned, base = fleet.model("tuned"), fleet.model("m")
    assert (tuned.model, tuned.parent, tuned.fingerprint, tuned.max_model_length) == ("tuned", "m", "f", 64)
    assert (base.parent, base.fingerprint) == ("", "")
    assert [fleet.tokenizer_of(name) for name in ("m", "tuned", "x")] == ["m", "m", "x"]
    await fleet.close()
