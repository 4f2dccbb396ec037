"""Several gateways answer as one: newest first, each record with its gateway, and each tenant its own."""

from typing import Any

import pytest

from headrace.bus import subjects
from headrace.bus.memory_bus import MemoryBus
from headrace.gateway.peers.known_requests import KnownRequests
from headrace.gateway.peers.peers import Peers
from headrace.gateway.peers.request_query import RequestQuery
from headrace.gateway.publisher import GatewayInquirer
from headrace.gateway.request.ledger import Ledger
from headrace.gateway.subscriber import GatewaySubscriber
from headrace.gateway.timing.request_record import RequestRecord
from headrace.v1.events_pb2 import ServiceDeregistered, ServiceRegistered

pytestmark = pytest.mark.anyio


class Gateway:
    """The part of a gateway that knows requests."""

    def __init__(self, bus: MemoryBus, name: str) -> None:
        self.bus, self.name, self.ledger = bus, name, Ledger(8)
        self.peers = Peers(name, GatewayInquirer(bus, name).ask)
        self.requests = KnownRequests(self.ledger, self.peers)

    async def start(self) -> None:
        await GatewaySubscriber(self.bus).listen_to_peers(self.peers, self.requests)

    async def announce(self, kind: str = "gateway") -> None:
        subject = subjects.of(subjects.registered(kind), self.name)
        await self.bus.publish(subject, ServiceRegistered(service_id=self.name, kind=kind))

    def serve(self, started: float, tenant: str = "acme", name: str = "") -> None:
        record = RequestRecord(started_time=started, tenant=tenant, client_id=name, outcome="finished")
        record.started_time = started
        self.ledger.recent.add(record)


@pytest.fixture
async def gateways() -> list[Gateway]:
    bus = MemoryBus()
    made = [Gateway(bus, name) for name in ("gateway", "gateway-1", "gateway-2")]
    for each in made:
        await each.start()
    for each in made:
        await each.announce()
    return made


def served(rows: list[dict[str, Any]]) -> list[tuple[str, float]]:
    return [(row["gateway"], row["started"]) for row in rows]


async def test_the_newest_of_all_come_first(gateways: list[Gateway]) -> None:
    for number, started in enumerate((10.0, 30.0, 20.0)):
        gateways[number].serve(started)
    gateways[1].serve(40.0, tenant="rival")
    query = RequestQuery("acme", limit=2)
    for each in gateways:
        found = await each.requests.of_all_gateways(query)
        assert served(found) == [("gateway-1", 30.0), ("gateway-2", 20.0)]
        assert each.requests.gateways == ["gateway", "gateway-1", "gateway-2"]


async def test_one_is_found_wherever_it_was_served(gateways: list[Gateway]) -> None:
    gateways[0].serve(10.0, name="early")
    gateways[2].serve(20.0, name="late")
    for name, place in (("early", "gateway"), ("late", "gateway-2"), ("last", "gateway-2")):
        for each in gateways:
            (found,) = await each.requests.of_all_gateways(RequestQuery("acme", name=name))
            assert found["gateway"] == place
    assert await gateways[0].requests.of_all_gateways(RequestQuery("rival", name="early")) == []


async def test_open_requests_add_up(gateways: list[Gateway]) -> None:
    mine = RequestRecord(model="m", tenant="acme", request_class="batch")
    also = RequestRecord(model="m", tenant="acme", request_class="batch")
    other = RequestRecord(model="m", tenant="rival")
    with (
        gateways[0].ledger.open_request("1", "m", mine),
        gateways[1].ledger.open_request("2", "m", also),
        gateways[1].ledger.open_request("3", "m", other),
    ):
        own = await gateways[2].requests.of_all_gateways(RequestQuery("acme", is_open=True))
        everything = await gateways[2].requests.of_all_gateways(RequestQuery("", all_tenants=True, is_open=True))
    assert own == [{"model": "m", "class": "batch", "tenant": "acme", "requests": 2}]
    assert [row["tenant"] for row in everything] == ["acme", "rival"]
    assert await gateways[2].requests.of_all_gateways(RequestQuery("acme", is_open=True)) == []


async def test_a_gateway_that_stops_is_forgotten_and_other_services_are_none(gateways: list[Gateway]) -> None:
    first = gateways[0]
    farewell = ServiceDeregistered(service_id="gateway-1")
    await first.bus.publish(subjects.of(subjects.deregistered("gateway"), "gateway-1"), farewell)
    await Gateway(first.bus, "worker-0").announce(kind="worker")
    assert first.peers.names == ["gateway-2"]


async def test_without_nats_a_gateway_answers_for_itself(gateways: list[Gateway]) -> None:
    for each in gateways:
        each.serve(10.0)
    gateways[0].bus.disconnect()
    assert served(await gateways[0].requests.of_all_gateways(RequestQuery("acme", limit=9))) == [("gateway", 10.0)]
