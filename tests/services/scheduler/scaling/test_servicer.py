"""KEDA's external scaler, asked as KEDA asks it: over gRPC, with the metadata of a trigger."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from headrace.scheduler.core import events
from headrace.scheduler.core.core import SchedulingCore
from headrace.scheduler.core.demand.demand import STALE_SECONDS
from headrace.scheduler.core.fleet.worker import WorkerReport
from headrace.scheduler.core.journal import Journal
from headrace.scheduler.core.policy import Policy
from headrace.scheduler.core.queueing.ticket import Ticket
from headrace.scheduler.scaling import servicer
from headrace.scheduler.scaling.servicer import METRIC, KedaScaler
from headrace.scheduler.scheduler import Scheduler
from headrace.v1.keda import externalscaler_pb2 as pb
from headrace.v1.keda import externalscaler_pb2_grpc

pytestmark = pytest.mark.anyio
NO_CLIENTS: Any = None
TIMEOUT = 10.0
ROUNDS = 2000


class Keda:
    """A scheduler whose time is set by hand, and KEDA's stub for it."""

    def __init__(self, stub: Any) -> None:
        self.now = 0.0
        self.scheduler = Scheduler(SchedulingCore(Policy()), Journal(), NO_CLIENTS, 1.0, clock=lambda: self.now)
        self.stub = stub

    def tick(self, now: float, running_count: int = 0) -> None:
        self.now = now
        report = WorkerReport("w", 1, int(now * 10) + 1, "m", credit_count=8 - running_count, open_count=running_count)
        self.scheduler.feed(events.WorkerReported(report, answers=True))
        self.scheduler.feed(events.Tick())

    async def idle(self) -> None:
        """Lets time pass until no worker is wanted."""
        for second in range(ROUNDS):
            self.tick(float(second))
            if self.scheduler.core.desk("m").demand.wanted == 0:
                return
        raise AssertionError

    def ask(self) -> None:
        ticket = Ticket("r", 1, "m", "t", self.now, self.now + 60, prompt_token_count=5, max_token_count=5)
        self.scheduler.feed(events.Submitted(ticket))


@pytest.fixture
async def keda() -> AsyncIterator[Keda]:
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        made = Keda(externalscaler_pb2_grpc.ExternalScalerStub(channel))
        externalscaler_pb2_grpc.add_ExternalScalerServicer_to_server(KedaScaler(made.scheduler), server)
        await server.start()
        yield made
        await server.stop(0)


def scaled(model: str = "m") -> pb.ScaledObjectRef:
    return pb.ScaledObjectRef(name="workers", namespace="ai", scalerMetadata={"model": model, "scalerAddress": "x:1"})


async def value(keda: Keda) -> float:
    request = pb.GetMetricsRequest(scaledObjectRef=scaled(), metricName=METRIC)
    (metric,) = (await keda.stub.GetMetrics(request, timeout=TIMEOUT)).metricValues
    assert metric.metricValue == metric.metricValueFloat
    return float(metric.metricValueFloat)


async def refusal(keda: Keda, request: pb.ScaledObjectRef) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await keda.stub.IsActive(request, timeout=TIMEOUT)
    return error.value


async def test_one_replica_bears_one_wanted_worker(keda: Keda) -> None:
    (spec,) = (await keda.stub.GetMetricSpec(scaled(), timeout=TIMEOUT)).metricSpecs
    assert (spec.metricName, spec.targetSize, spec.targetSizeFloat) == (METRIC, 1, 1.0)
    keda.tick(1.0)
    assert await value(keda) == 1
    keda.tick(2.0, running_count=8)
    assert await value(keda) == 2
    assert (await keda.stub.IsActive(scaled(), timeout=TIMEOUT)).result


async def test_what_is_not_known_fails_so_that_nothing_is_scaled(keda: Keda) -> None:
    unknown = await refusal(keda, scaled("other"))
    assert unknown.code() is grpc.StatusCode.UNAVAILABLE
    keda.tick(1.0)
    assert "models seen: m" in str((await refusal(keda, scaled("other"))).details())
    keda.now += STALE_SECONDS + 1
    assert (await refusal(keda, scaled())).code() is grpc.StatusCode.UNAVAILABLE


async def test_a_trigger_without_a_model_is_named(keda: Keda) -> None:
    error = await refusal(keda, pb.ScaledObjectRef(name="workers"))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "'workers' lacks model" in str(error.details())


async def test_workers_that_are_not_scaled_are_taken_off(keda: Keda) -> None:
    keda.tick(1.0, running_count=8)
    for others, is_active in (("1", True), ("2", False), ("9", False)):
        metadata = {"model": "m", "otherWorkers": others}
        request = pb.ScaledObjectRef(name="workers", scalerMetadata=metadata)
        assert (await keda.stub.IsActive(request, timeout=TIMEOUT)).result is is_active
    for others in ("-1", "two", "9" * 5000):
        wrong = pb.ScaledObjectRef(name="workers", scalerMetadata={"model": "m", "otherWorkers": others})
        assert (await refusal(keda, wrong)).code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_stream_tells_at_once_that_the_first_worker_is_wanted(keda: Keda) -> None:
    await keda.idle()
    stream = keda.stub.StreamIsActive(scaled(), timeout=TIMEOUT)
    assert not (await stream.read()).result
    keda.ask()
    assert (await asyncio.wait_for(stream.read(), TIMEOUT)).result
    stream.cancel()


async def test_streams_are_bounded(keda: Keda, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servicer, "MAX_STREAMS", 1)
    keda.tick(1.0)
    first = keda.stub.StreamIsActive(scaled(), timeout=TIMEOUT)
    await first.read()
    second = keda.stub.StreamIsActive(scaled(), timeout=TIMEOUT)
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await second.read()
    assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    first.cancel()
