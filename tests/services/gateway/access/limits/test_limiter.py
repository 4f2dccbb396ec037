"""Gateways on one bus grant exactly what a key has, even when clients leave, or a gateway fails or loses the bus."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from google.protobuf.message import Message
from prometheus_client import CollectorRegistry, Gauge

from headrace.access.key_record import KeyRecord
from headrace.bus.bus import LEASES, Bus, Store
from headrace.bus.memory_bus import MemoryBus
from headrace.bus.nats_bus import NatsBus
from headrace.errors import RateLimited
from headrace.gateway.access.limits import key_budget, limit_writer, shared_budgets
from headrace.gateway.access.limits.limiter import Limiter
from headrace.gateway.access.limits.reservation import Reservation
from headrace.gateway.access.limits.shared_budgets import SharedBudgets
from headrace.supervisor.nats_server import LocalNats

pytestmark = pytest.mark.anyio


class CrowdedBus(MemoryBus):
    """Lets others go first between a read and a swap, so that swaps collide."""

    def __init__(self) -> None:
        super().__init__()
        self.lost_count = 0
        self.swap_count = 0

    async def swap(self, key: str, message: Message, revision: int, store: Store = LEASES) -> int | None:
        await asyncio.sleep(0)
        written = await super().swap(key, message, revision, store)
        self.swap_count += 1
        self.lost_count += written is None
        return written


def key(**limits: int) -> KeyRecord:
    return KeyRecord.model_validate(
        {"id": "abcdefgh", "name": "n", "tenant": "t", "digest": "0" * 64, "created": 0, "limits": limits}
    )


def gateways(*buses: Bus) -> list[Limiter]:
    return [Limiter(SharedBudgets(bus), f"gateway-{number}") for number, bus in enumerate(buses)]


@pytest.fixture(params=["memory", pytest.param("nats", marks=pytest.mark.process)])
async def pair(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[list[Limiter]]:
    """Two gateways on one bus: within this process, or on a NATS server that may answer as slowly as it likes."""
    monkeypatch.setattr(shared_budgets, "STORE_SECONDS", 15.0)
    if request.param == "memory":
        yield gateways(*[CrowdedBus()] * 2)
        return
    nats = LocalNats(tmp_path)
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*nats.command(-1), stdout=quiet, stderr=quiet)
    async with asyncio.timeout(15):
        while not await nats.is_ready():  # noqa: ASYNC110 - it can only be asked
            await asyncio.sleep(0.01)
    buses = [NatsBus(nats.url, f"gateway-{number}") for number in range(2)]
    for bus in buses:
        bus.start()
    async with asyncio.timeout(15):
        while not all(bus.connected for bus in buses):  # noqa: ASYNC110 - it can only be asked
            await asyncio.sleep(0.01)
    yield gateways(*buses)
    for bus in buses:
        await bus.close()
    process.kill()
    await process.wait()


async def granted(limiters: Sequence[Limiter], record: KeyRecord, count: int, tokens: int) -> list[Reservation]:
    """Asks `count` times at once, half of each gateway, and returns what was granted."""
    asked = [limiters[number % len(limiters)].reserve(record, tokens) for number in range(count)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, BaseException)]
    assert all(isinstance(error, RateLimited) and error.retry_after for error in refused)
    return [answer for answer in answers if isinstance(answer, Reservation)]


async def test_two_gateways_grant_exactly_the_budget_to_200_clients(pair: list[Limiter]) -> None:
    assert len(await granted(pair, key(requests_per_day=120), 200, 10)) == 120


async def test_what_was_not_used_is_granted_to_others(pair: list[Limiter]) -> None:
    record = key(tokens_per_day=10_000)
    used = 0
    for expected in (100, 50, 25):
        got = await granted(pair, record, 200, 100)
        assert len(got) == expected
        for reservation in got:
            reservation.settle(50, is_counted=True)
            reservation.settle(50, is_counted=True)
        used += 50 * len(got)
        await asyncio.gather(*(limiter.close() for limiter in pair))
    assert used == 8750


async def test_no_more_than_the_places_run_at_once(pair: list[Limiter]) -> None:
    record = key(concurrency=7)
    first = await granted(pair, record, 40, 1)
    assert len(first) == 7
    for reservation in first[:3]:
        reservation.settle(1, is_counted=True)
    await asyncio.gather(*(limiter.close() for limiter in pair))
    assert len(await granted(pair, record, 40, 1)) == 3


async def test_a_request_that_does_not_count_gives_all_back() -> None:
    (limiter,) = gateways(MemoryBus())
    record = key(requests_per_day=1)
    (await limiter.reserve(record, 5)).settle(0, is_counted=False)
    await limiter.reserve(record, 5)
    with pytest.raises(RateLimited):
        await limiter.reserve(record, 5)


async def test_whoever_leaves_while_asking_takes_nothing() -> None:
    bus = CrowdedBus()
    (limiter,) = gateways(bus)
    record = key(requests_per_day=10, concurrency=10)
    for turns in range(6):
        asking = asyncio.create_task(limiter.reserve(record, 1))
        for _ in range(turns):
            await asyncio.sleep(0)
        asking.cancel()
        answers = await asyncio.gather(asking, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, Reservation):
                answer.settle(0, is_counted=False)
        await limiter.close()
    assert len(await granted([limiter], record, 20, 1)) == 10


async def test_many_wait_for_one_update() -> None:
    bus = CrowdedBus()
    await granted(gateways(bus), key(requests_per_day=1000), 200, 1)
    assert bus.swap_count <= 2


async def test_swaps_that_collide_are_tried_again() -> None:
    bus = CrowdedBus()
    assert len(await granted(gateways(bus, bus, bus), key(requests_per_day=100), 150, 1)) == 100
    assert bus.lost_count > 0


async def test_a_gateway_that_was_killed_gives_its_places_back(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(limit_writer, "wall_clock", lambda: now)
    killed, left = gateways(*[MemoryBus()] * 2)
    record = key(concurrency=2)
    assert len(await granted([killed], record, 2, 1)) == 2
    assert await granted([left], record, 1, 1) == []
    now += key_budget.PLACE_SECONDS + 1
    assert len(await granted([left], record, 3, 1)) == 2


async def test_places_that_are_renewed_stay_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(limit_writer, "wall_clock", lambda: now)
    holding, other = gateways(*[MemoryBus()] * 2)
    record = key(concurrency=1)
    await holding.reserve(record, 1)
    for _ in range(4):
        now += key_budget.PLACE_SECONDS / 2
        for writer in holding._writers.values():
            writer.renew()
        await holding.close()
        assert await granted([other], record, 1, 1) == []


async def test_without_the_bus_each_gateway_counts_alone_and_pays_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_budgets, "PAUSE_SECONDS", 0.0)
    alone = Gauge("alone", "The service's own gauge has the value that other tests left", registry=CollectorRegistry())
    monkeypatch.setattr(shared_budgets, "LIMITS_ALONE", alone)
    bus = MemoryBus()
    one, other = gateways(bus, bus)
    record = key(requests_per_day=10)
    assert len(await granted([one, other], record, 4, 1)) == 4
    bus.disconnect()
    assert one.is_alone
    assert alone._value.get() == 0
    assert len(await granted([one], record, 3, 1)) == 3
    assert alone._value.get() == 1
    bus.reconnect()
    assert len(await granted([one], record, 1, 1)) == 1
    assert alone._value.get() == 0
    assert not one.is_alone
    assert len(await granted([other], record, 20, 1)) == 2


async def test_what_never_fits_says_what_to_do() -> None:
    (limiter,) = gateways(MemoryBus())
    told: dict[str, str] = {}
    with pytest.raises(RateLimited, match="set max_tokens") as refusal:
        await limiter.reserve(key(tokens_per_minute=100), 101, told.update)
    assert refusal.value.retry_after is None
    assert told["x-ratelimit-remaining-tokens"] == "100"
