"""The cache as it runs, on a real NATS: bursts arrive, and what NATS loses is found again."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace import failpoints
from headrace.bus.nats_bus import NatsBus
from headrace.cache.app import open_app
from headrace.cache.block_lists import LISTS
from headrace.cache.config import CacheSettings
from headrace.domain.deadline import Deadline
from headrace.engine.contract.request import BlockEvents
from headrace.engine.engines.sim import SimConfig, SimEngine
from headrace.kv.held_prefix import HeldPrefix
from headrace.lifecycle.run import serving
from headrace.rpc.channel import open_channel
from headrace.rpc.server import Server
from headrace.service_clients.cache import GrpcCacheClient
from headrace.supervisor.nats_server import LocalNats
from headrace.v1.worker_pb2_grpc import add_WorkerServiceServicer_to_server
from headrace.worker import publisher
from headrace.worker.publisher import WorkerPublisher
from headrace.worker.requests.runtime import Runtime
from headrace.worker.servicer import WorkerServicer
from headrace.worker.status.block_log import MAX_HASHES
from headrace.worker.status.device_rates import DeviceRates
from headrace.worker.status.status_board import StatusBoard

pytestmark = [pytest.mark.anyio, pytest.mark.process]
PATIENCE = 20.0
CREDENTIAL = "secret"
"""Both services show it and want it, as those of `headrace up` do."""
HASHES = tuple(number.to_bytes(16, "big") for number in range(3 * MAX_HASHES))


class Nats:
    """A real server, which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._local = LocalNats(folder)
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return self._local.url

    async def start(self) -> None:
        command = self._local.command(-1 if self._local.port is None else self._local.port)
        quiet = asyncio.subprocess.DEVNULL
        self._process = await asyncio.create_subprocess_exec(*command, stdout=quiet, stderr=quiet)
        deadline = Deadline.after(PATIENCE)
        while not await self._local.is_ready():
            assert not deadline.expired, "NATS does not start"
            await asyncio.sleep(0.01)

    async def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            await self._process.wait()
            self._process = None


class Worker:
    """A worker that tells of its blocks, over NATS and at a real port."""

    def __init__(self, url: str) -> None:
        runtime = Runtime(SimEngine(SimConfig()), "m", attach_seconds=30.0)
        self.board = StatusBoard(runtime, "w", 7, "m", DeviceRates())
        self.bus = NatsBus(url, "w")
        self.publisher = WorkerPublisher(self.board, self.bus, "w")
        servicer = WorkerServicer(runtime, self.board, "w", 7, lambda _patience: None, lambda _model, _is_pinned: None)
        self._server = Server(
            lambda to: add_WorkerServiceServicer_to_server(servicer, to), ["headrace.v1.WorkerService"], CREDENTIAL
        )

    async def start(self) -> None:
        self.bus.start()
        self._telling = asyncio.create_task(self.publisher.tell_blocks())
        self.board.advertise(await self._server.start("127.0.0.1:0"))
        await until_connected(self.bus, True)

    async def stop(self) -> None:
        self._telling.cancel()
        await asyncio.gather(self._telling, return_exceptions=True)
        await self._server.stop(0)
        await self.bus.close()

    async def store(self, *hashes: bytes) -> None:
        """Tells of blocks, whether anybody hears it or not."""
        self.publisher.on_blocks(BlockEvents(stored=hashes))
        deadline = Deadline.after(PATIENCE)
        while self.board.blocks.pending:
            assert not deadline.expired
            await asyncio.sleep(0.002)


async def until_connected(bus: NatsBus, connected: bool) -> None:
    deadline = Deadline.after(PATIENCE)
    while bus.connected is not connected:
        assert not deadline.expired, "NATS did not come, or did not go"
        await asyncio.sleep(0.005)


async def until_held(cache: GrpcCacheClient, *hashes: bytes) -> None:
    """Waits until the cache answers that the worker holds exactly these leading blocks."""
    deadline = Deadline.after(PATIENCE)
    while await cache.lookup_prefix("m", hashes, 5.0) != {"w": HeldPrefix(len(hashes))}:
        assert not deadline.expired, "the index does not heal"
        await asyncio.sleep(0.01)


@pytest.fixture
async def nats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Nats]:
    monkeypatch.setattr(publisher, "QUIET_BLOCKS_INTERVAL", 0.2)
    made = Nats(tmp_path / "nats")
    await made.start()
    yield made
    await made.kill()


@pytest.fixture
async def worker(nats: Nats) -> AsyncIterator[Worker]:
    made = Worker(nats.url)
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def cache(nats: Nats, tmp_path: Path) -> AsyncIterator[GrpcCacheClient]:
    settings = CacheSettings(folder=tmp_path / "cache", nats_url=nats.url, credential=CREDENTIAL)
    async with (
        open_app(settings) as service,
        serving(settings, service) as address,
        open_channel(address, CREDENTIAL) as channel,
    ):
        assert isinstance(service.bus, NatsBus)
        await until_connected(service.bus, True)
        yield GrpcCacheClient(channel)


def lists_asked() -> float:
    return sum(
        sample.value for metric in LISTS.collect() for sample in metric.samples if sample.name.endswith("_total")
    )


async def test_a_burst_larger_than_a_message_arrives(worker: Worker, cache: GrpcCacheClient) -> None:
    await worker.store(b"first".ljust(16))
    await until_held(cache, b"first".ljust(16))
    before = lists_asked()
    await worker.store(*HASHES)
    await until_held(cache, *HASHES[:10], HASHES[-1])
    assert lists_asked() == before


async def test_a_fact_that_is_dropped_on_the_way_is_found_again(
    worker: Worker, cache: GrpcCacheClient, tmp_path: Path
) -> None:
    await worker.store(HASHES[0])
    await until_held(cache, HASHES[0])
    failpoints.arm(tmp_path)
    try:
        (tmp_path / "bus.publish").write_text("drop")
        await worker.store(HASHES[1])
    finally:
        failpoints.arm(None)
    await until_held(cache, HASHES[0], HASHES[1])


async def test_what_was_told_while_nats_was_gone_is_found_again(
    worker: Worker, cache: GrpcCacheClient, nats: Nats
) -> None:
    await worker.store(HASHES[0])
    await until_held(cache, HASHES[0])
    await nats.kill()
    await until_connected(worker.bus, False)
    await worker.store(HASHES[1])
    await nats.start()
    await until_held(cache, HASHES[0], HASHES[1])


async def test_a_cache_that_starts_later_knows_a_quiet_worker(nats: Nats, worker: Worker, tmp_path: Path) -> None:
    await worker.store(*HASHES[:5])
    settings = CacheSettings(folder=tmp_path / "late", nats_url=nats.url, credential=CREDENTIAL)
    async with (
        open_app(settings) as service,
        serving(settings, service) as address,
        open_channel(address, CREDENTIAL) as channel,
    ):
        await until_held(GrpcCacheClient(channel), *HASHES[:5])
