"""Heartbeats stay rare however much changes; blocks are published soon, and only once."""

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest

from headrace.bus import subjects
from headrace.bus.memory_bus import MemoryBus
from headrace.engine.contract.request import BlockEvents
from headrace.engine.engines.sim import SimConfig, SimEngine
from headrace.v1.events_pb2 import BlocksChanged, WorkerHeartbeatSent
from headrace.worker import publisher
from headrace.worker.publisher import BLOCKS_INTERVAL, MIN_INTERVAL, WorkerPublisher
from headrace.worker.requests.runtime import Runtime
from headrace.worker.status.device_rates import DeviceRates
from headrace.worker.status.status_board import StatusBoard

pytestmark = pytest.mark.anyio
TIMEOUT = 10.0


class Heard:
    """A worker's heartbeat and all that came of it."""

    def __init__(self) -> None:
        self.bus = MemoryBus()
        self.board = StatusBoard(Runtime(SimEngine(SimConfig()), "m", 1.0), "w", 1, "m", DeviceRates())
        self.publisher = WorkerPublisher(self.board, self.bus, "w")
        self.board.listen(self.publisher.on_change)
        self.statuses: asyncio.Queue[tuple[float, WorkerHeartbeatSent]] = asyncio.Queue()
        self.blocks: asyncio.Queue[BlocksChanged] = asyncio.Queue()

    async def listen(self) -> None:
        await self.bus.subscribe(
            subjects.WORKER_HEARTBEAT,
            WorkerHeartbeatSent,
            lambda event: self.statuses.put_nowait((asyncio.get_running_loop().time(), event)),
        )
        await self.bus.subscribe(subjects.BLOCKS_CHANGED, BlocksChanged, self.blocks.put_nowait)


@pytest.fixture
async def heard() -> AsyncIterator[Heard]:
    made = Heard()
    await made.listen()
    tasks = [asyncio.create_task(made.publisher.beat()), asyncio.create_task(made.publisher.tell_blocks())]
    yield made
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_heartbeats_are_four_a_second_at_most_though_all_changes_all_the_time(heard: Heard) -> None:
    heard.board.advertise("here")

    async def change() -> None:
        while True:
            heard.board.on_change()
            await asyncio.sleep(0.001)

    changing = asyncio.create_task(change())
    async with asyncio.timeout(TIMEOUT):
        times = [(await heard.statuses.get())[0] for _ in range(4)]
    changing.cancel()
    assert all(later - earlier >= 0.9 * MIN_INTERVAL for earlier, later in itertools.pairwise(times))


async def test_an_idle_worker_is_heard_of_and_one_without_an_address_is_not(heard: Heard) -> None:
    heard.board.on_change()
    await asyncio.sleep(2 * MIN_INTERVAL)
    assert heard.statuses.empty()
    heard.board.advertise("here")
    async with asyncio.timeout(TIMEOUT):
        versions = [(await heard.statuses.get())[1].status.version for _ in range(3)]
    assert versions == sorted(set(versions))


async def test_an_advertised_worker_is_heard_of_as_soon_as_it_is_connected(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first heartbeat would otherwise be lost to a bus that connects, and the next one come much later."""
    monkeypatch.setattr(publisher, "INTERVAL", 60.0)
    monkeypatch.setattr(publisher, "MIN_INTERVAL", 60.0)
    heard.bus.disconnect()
    heard.board.advertise("here")
    await asyncio.sleep(BLOCKS_INTERVAL)
    heard.bus.reconnect()
    async with asyncio.timeout(TIMEOUT):
        assert (await heard.statuses.get())[1].status.address == "here"


async def test_blocks_are_told_once_and_in_order(heard: Heard) -> None:
    heard.board.advertise("here")
    for number in range(50):
        heard.publisher.on_blocks(BlockEvents(stored=(bytes([number]),), removed=()))
        await asyncio.sleep(0)
    told: list[bytes] = []
    async with asyncio.timeout(TIMEOUT):
        while len(told) < 50:
            told += (await heard.blocks.get()).stored_block_hashes
    assert told == [bytes([number]) for number in range(50)]


async def test_blocks_wait_for_the_address_at_which_they_can_be_asked_for(heard: Heard) -> None:
    heard.publisher.on_blocks(BlockEvents(stored=(b"a",)))
    await asyncio.sleep(5 * BLOCKS_INTERVAL)
    assert heard.blocks.empty()
    heard.board.advertise("here")
    async with asyncio.timeout(TIMEOUT):
        change = await heard.blocks.get()
    assert (change.address, change.sequence_number, list(change.stored_block_hashes)) == ("here", 1, [b"a"])


async def test_a_quiet_worker_tells_its_latest_number_again(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "QUIET_BLOCKS_INTERVAL", 0.05)
    heard.board.advertise("here")
    heard.publisher.on_blocks(BlockEvents(stored=(b"a",)))
    async with asyncio.timeout(TIMEOUT):
        changes = [await heard.blocks.get() for _ in range(3)]
    assert [change.sequence_number for change in changes] == [1, 1, 1]
    assert [list(change.stored_block_hashes) for change in changes] == [[b"a"], [], []]
