"""All workers of a model keep it awake, or none does."""

from typing import Any

import pytest

from headrace.errors import NotFound, Unavailable
from headrace.rpc.channel import open_channel
from headrace.rpc.server import Server
from headrace.service_clients.worker_pins import pin_everywhere
from headrace.v1 import worker_pb2 as pb
from headrace.v1 import worker_pb2_grpc

pytestmark = pytest.mark.anyio


class Pinning(worker_pb2_grpc.WorkerServiceServicer):
    """Notes what it is asked, and refuses if it is broken."""

    def __init__(self, *, is_broken: bool) -> None:
        self.asked: list[bool] = []
        self._is_broken = is_broken

    async def Pin(self, request: pb.PinRequest, context: Any) -> pb.PinResponse:
        self.asked.append(request.is_pinned)
        if self._is_broken:
            raise Unavailable(f"{request.model} is away")
        return pb.PinResponse()


async def ask(*broken: bool) -> list[list[bool]]:
    """Asks workers to pin a model, and returns what each was asked, though one refuses."""
    workers = [Pinning(is_broken=each) for each in broken]  # type: ignore[abstract]
    servers, addresses = [], []
    for worker in workers:
        server = Server(
            lambda to, one=worker: worker_pb2_grpc.add_WorkerServiceServicer_to_server(one, to),  # type: ignore[misc]
            ["headrace.v1.WorkerService"],
        )
        addresses.append(await server.start("127.0.0.1:0"))
        servers.append(server)
    openers = [lambda address=address: open_channel(address) for address in addresses]
    try:
        if any(broken):
            with pytest.raises(Unavailable, match="m is away"):
                await pin_everywhere(openers, "m", is_pinned=True)
        else:
            await pin_everywhere(openers, "m", is_pinned=True)
    finally:
        for server in servers:
            await server.stop(0)
    return [worker.asked for worker in workers]


async def test_all_are_asked() -> None:
    assert await ask(False, False) == [[True], [True]]


async def test_those_before_one_that_refuses_are_set_back() -> None:
    assert await ask(False, True, False) == [[True, False], [True], []]


async def test_an_adapter_has_no_worker() -> None:
    with pytest.raises(NotFound, match="pin the model instead"):
        await pin_everywhere([], "tuned", is_pinned=True)
