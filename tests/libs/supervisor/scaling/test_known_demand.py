"""The scheduler that leads a model is believed, and without any nothing is known."""

from collections.abc import AsyncIterator, Sequence

import grpc
import pytest

from headrace.supervisor.scaling.known_demand import KnownDemand
from headrace.v1 import scheduler_pb2 as pb

pytestmark = pytest.mark.anyio


class Wanting:
    """Wants what it was given."""

    def __init__(self, *demands: pb.ModelDemand) -> None:
        self._demands = demands

    async def GetDemand(self, request: pb.GetDemandRequest, context: object) -> pb.GetDemandResponse:
        return pb.GetDemandResponse(demands=self._demands)


@pytest.fixture
async def servers() -> AsyncIterator[list[grpc.aio.Server]]:
    started: list[grpc.aio.Server] = []
    yield started
    for server in started:
        await server.stop(0)


def _only_demand(wanting: Wanting) -> grpc.GenericRpcHandler:
    handler = grpc.unary_unary_rpc_method_handler(
        wanting.GetDemand, pb.GetDemandRequest.FromString, pb.GetDemandResponse.SerializeToString
    )
    return grpc.method_handlers_generic_handler("headrace.v1.SchedulerService", {"GetDemand": handler})


async def known(servers: list[grpc.aio.Server], *schedulers: Sequence[pb.ModelDemand]) -> dict[str, int]:
    channels = [grpc.aio.insecure_channel("127.0.0.1:1")]
    for demands in schedulers:
        server = grpc.aio.server()
        servers.append(server)
        server.add_generic_rpc_handlers([_only_demand(Wanting(*demands))])
        channels.append(grpc.aio.insecure_channel(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"))
        await server.start()
    demand = KnownDemand(channels)
    try:
        return dict(await demand.ask())
    finally:
        await demand.close()


async def test_nothing_is_known_where_no_scheduler_answers(servers: list[grpc.aio.Server]) -> None:
    assert await known(servers) == {}


async def test_the_leader_of_each_model_is_believed(servers: list[grpc.aio.Server]) -> None:
    first = (
        pb.ModelDemand(model="a", wanted_worker_count=5, fence=7),
        pb.ModelDemand(model="b", wanted_worker_count=1, fence=0),
        pb.ModelDemand(model="c", fence=9),
    )
    second = (
        pb.ModelDemand(model="a", wanted_worker_count=9, fence=3),
        pb.ModelDemand(model="b", wanted_worker_count=0, fence=8),
    )
    assert await known(servers, first, second) == {"a": 5, "b": 0}
