"""The index of a running cache heals from lost facts by asking the workers, over real calls."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable

import grpc
import pytest

from headrace.bus import subjects
from headrace.bus.memory_bus import MemoryBus
from headrace.cache import block_lists
from headrace.cache.block_feed import BlockFeed
from headrace.cache.block_lists import BlockLists
from headrace.cache.prefix_index import PrefixIndex
from headrace.cache.translation import to_block_change
from headrace.domain.deadline import Deadline
from headrace.engine.contract.request import BlockEvents
from headrace.engine.engines.sim import SimConfig, SimEngine
from headrace.lifecycle import Background
from headrace.rpc.channel import open_channel
from headrace.rpc.server import Server
from headrace.v1.events_pb2 import BlocksChanged
from headrace.v1.worker_pb2_grpc import add_WorkerServiceServicer_to_server
from headrace.worker import publisher
from headrace.worker.publisher import WorkerPublisher
from headrace.worker.requests.runtime import Runtime
from headrace.worker.servicer import WorkerServicer
from headrace.worker.status.block_log import MAX_HASHES
from headrace.worker.status.device_rates import DeviceRates
from headrace.worker.status.status_board import StatusBoard

pytestmark = pytest.mark.anyio
PATIENCE = 20.0


class RunningWorker:
    """A worker that tells what it holds, and lists it at a real port."""

    def __init__(self, bus: MemoryBus, worker_id: str = "w", epoch: int = 7) -> None:
        runtime = Runtime(SimEngine(SimConfig()), "m", attach_seconds=30.0)
        self.board = StatusBoard(runtime, worker_id, epoch, "m", DeviceRates())
        self.publisher = WorkerPublisher(self.board, bus, worker_id)
        servicer = WorkerServicer(
            runtime, self.board, worker_id, epoch, lambda _patience: None, lambda _model, _is_pinned: None
        )
        self.server = Server(
            lambda to: add_WorkerServiceServicer_to_server(servicer, to), ["headrace.v1.WorkerService"]
        )
        self.truth: set[bytes] = set()

    async def start(self) -> None:
        self.board.advertise(await self.server.start("127.0.0.1:0"))
        self.telling = asyncio.create_task(self.publisher.tell_blocks())

    async def stop(self) -> None:
        self.telling.cancel()
        await asyncio.gather(self.telling, return_exceptions=True)
        await self.server.stop(0)

    async def change(self, wanted: set[bytes]) -> None:
        """Holds `wanted` from now on, and tells it."""
        removed, stored = self.truth - wanted, wanted - self.truth
        self.truth = wanted
        self.publisher.on_blocks(BlockEvents(stored=tuple(stored), removed=tuple(removed)))
        await until(lambda: not self.board.blocks.pending)


class RunningCache:
    """The part of a cache that follows blocks, and the calls it made."""

    def __init__(self, bus: MemoryBus) -> None:
        self.index = PrefixIndex(1_000_000)
        self.feed = BlockFeed(self.index)
        self.background = Background()
        self.calls: list[str] = []
        self.lists = BlockLists(self.feed, self.open, self.background)
        self.loses = False
        self.bus = bus

    async def start(self) -> None:
        await self.bus.subscribe(subjects.BLOCKS_CHANGED, BlocksChanged, self.hear)

    def hear(self, change: BlocksChanged) -> None:
        if not self.loses and self.feed.hear(to_block_change(change)):
            self.lists.want(change.worker_id)

    def open(self, address: str) -> grpc.aio.Channel:
        self.calls.append(address)
        return open_channel(address)

    async def stop(self) -> None:
        """Lets calls end: gRPC logs an error for each that is cancelled after the loop is closed."""
        self.loses = True
        for worker_id, life in self.feed._lives.items():
            life.challenger = None
            self.feed.depart(worker_id, life.epoch)
        await until(lambda: not self.lists._tasks)
        await self.background.close()

    def held(self, worker_id: str = "w") -> set[bytes]:
        return self.index.held(worker_id, "m")


async def until(condition: Callable[[], bool]) -> None:
    deadline = Deadline.after(PATIENCE)
    while not condition():
        assert not deadline.expired, "it did not happen in time"
        await asyncio.sleep(0.002)


def named(*names: str) -> set[bytes]:
    return {name.encode().ljust(16) for name in names}


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> MemoryBus:
    monkeypatch.setattr(publisher, "QUIET_BLOCKS_INTERVAL", 0.1)
    return MemoryBus()


@pytest.fixture
async def worker(bus: MemoryBus) -> AsyncIterator[RunningWorker]:
    made = RunningWorker(bus)
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def cache(bus: MemoryBus) -> AsyncIterator[RunningCache]:
    made = RunningCache(bus)
    await made.start()
    yield made
    await made.stop()


async def test_a_dropped_publish_heals(bus: MemoryBus, worker: RunningWorker, cache: RunningCache) -> None:
    await worker.change(named("a"))
    bus.disconnect()
    await worker.change(named("b"))
    bus.reconnect()
    await worker.change(named("b", "c"))
    await until(lambda: cache.held() == named("b", "c"))
    assert len(cache.calls) == 1


async def test_the_last_publish_before_a_silence_heals(
    bus: MemoryBus, worker: RunningWorker, cache: RunningCache
) -> None:
    await worker.change(named("a"))
    bus.disconnect()
    await worker.change(named("b"))
    bus.reconnect()
    await until(lambda: cache.held() == named("b"))


async def test_a_cache_that_restarts_knows_quiet_workers_again(bus: MemoryBus, worker: RunningWorker) -> None:
    await worker.change(named("a", "b"))
    restarted = RunningCache(bus)
    await restarted.start()
    await until(lambda: restarted.held() == named("a", "b"))
    await restarted.stop()


async def test_a_list_of_many_parts_arrives_whole(worker: RunningWorker, cache: RunningCache) -> None:
    many = {number.to_bytes(16, "big") for number in range(2 * MAX_HASHES + 5)}
    cache.loses = True
    await worker.change(many)
    cache.loses = False
    await until(lambda: cache.held() == many)
    assert len(cache.calls) == 1


async def test_a_worker_that_restarts_under_a_clock_that_was_set_back_is_followed(
    bus: MemoryBus, worker: RunningWorker, cache: RunningCache
) -> None:
    await worker.change(named("a"))
    await until(lambda: cache.held() == named("a"))
    await worker.stop()
    again = RunningWorker(bus, epoch=3)
    await again.start()
    await again.change(named("b"))
    await until(lambda: cache.held() == named("b"))
    await again.stop()


async def test_a_worker_that_does_not_answer_is_asked_again_later_and_later(
    bus: MemoryBus, worker: RunningWorker, cache: RunningCache
) -> None:
    cache.loses = True
    await worker.change(named("a"))
    await worker.server.stop(0)
    cache.loses = False
    start = asyncio.get_running_loop().time()
    await until(lambda: len(cache.calls) >= 4)
    shortest = sum(block_lists.RETRY_SECONDS[:3]) / 2
    assert asyncio.get_running_loop().time() - start >= shortest
    assert cache.held() == set()


async def test_one_list_at_a_time_for_each_worker_and_few_at_once(
    bus: MemoryBus, cache: RunningCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    running: list[str] = []
    peaks: list[int] = []
    all_want = asyncio.Event()
    ask = BlockLists._ask

    async def counted(self: BlockLists, worker_id: str) -> None:
        assert worker_id not in running
        running.append(worker_id)
        peaks.append(len(running))
        await all_want.wait()
        await ask(self, worker_id)
        running.remove(worker_id)

    monkeypatch.setattr(BlockLists, "_ask", counted)
    workers = [RunningWorker(bus, f"w{number}") for number in range(2 * block_lists.MAX_CALLS)]
    cache.loses = True
    for worker in workers:
        await worker.start()
        await worker.change(named("a", str(worker.board.address)))
    cache.loses = False
    await until(lambda: len(cache.lists._tasks) == len(workers) and len(running) == block_lists.MAX_CALLS)
    all_want.set()
    await until(lambda: all(cache.held(f"w{number}") == worker.truth for number, worker in enumerate(workers)))
    assert max(peaks) == block_lists.MAX_CALLS
    for worker in workers:
        await worker.stop()


async def test_it_heals_while_the_worker_changes_all_the_time(
    bus: MemoryBus, worker: RunningWorker, cache: RunningCache
) -> None:
    source = random.Random(7)
    names = [str(number) for number in range(30)]
    for _ in range(40):
        cache.loses = source.random() < 0.3
        await worker.change(named(*source.sample(names, 10)))
    cache.loses = False
    await until(lambda: cache.held() == worker.truth)
