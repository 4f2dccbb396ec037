"""A prompt computed on one worker and continued on another gives the same tokens, whatever happens on the way."""

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.libs.engine.engine_running import engine_config
from tests.libs.engine.tiny_models import make_oracle, make_prompts
from tests.services.worker.transfer.cutting_proxy import CuttingProxy

from headrace import failpoints
from headrace.domain.deadline import Deadline
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.kv.block_exchange import exchange_of
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.errors import InvalidRequest, Unsupported, WorkerStopping
from headrace.errors.status import from_status
from headrace.rpc.channel import open_channel
from headrace.rpc.server import Server
from headrace.service_clients.worker import GrpcWorkerClient
from headrace.v1 import worker_pb2 as pb
from headrace.v1 import worker_pb2_grpc
from headrace.v1.generation_pb2 import SamplingParams
from headrace.v1.scheduler_pb2 import Generation
from headrace.worker.requests.drain import drain
from headrace.worker.requests.outbox import Outbox
from headrace.worker.requests.runtime import Runtime
from headrace.worker.requests.translation import to_assignments, to_frame
from headrace.worker.servicer import WorkerServicer
from headrace.worker.status.device_rates import DeviceRates
from headrace.worker.status.status_board import StatusBoard
from headrace.worker.transfer import block_exports
from headrace.worker.transfer.fetching import peer_source
from headrace.worker.transfer.kept.kept_blocks import KeptBlocks
from headrace.worker.transfer.stored.shared_store import SharedStore
from headrace.worker.transfer.worker_role import WorkerRole

pytestmark = pytest.mark.anyio

BLOCK_SIZE = 16
(PROMPT,) = make_prompts((150,), seed=6)
BLOCK_COUNT = (len(PROMPT) - 1) // BLOCK_SIZE
OUTPUT_COUNT = 10
SECONDS = 20.0
TRIES = 5
"""Tries of a transfer that is cut: a busy machine may lose what has arrived with the connection."""
KEPT_BYTES = 4 << 20
_numbers = itertools.count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grouped")
    make_oracle(folder, "grouped")
    return folder


def load(folder: Path, **settings: Any) -> TextEngine:
    usual = {"max_step_token_count": 32, "block_count": 128, "thread_count": 1}
    return load_text_engine(folder, engine_config(**(usual | settings)))


@dataclass
class Worker:
    """A worker without bus and settings."""

    runtime: Runtime
    engine: TextEngine
    server: Server
    address: str
    outbox: Outbox

    async def ask(
        self,
        salt: str = "",
        source: str = "",
        held_only: bool = False,
        seconds: float = SECONDS,
        prompt: tuple[int, ...] = PROMPT,
        output: Sequence[int] = (),
        **more: Any,
    ) -> str:
        """Hands a request over, to begin with the blocks of `source`. `output`: tokens that an earlier worker made.
        Returns its id."""
        usual: dict[str, Any] = {"max_token_count": OUTPUT_COUNT, "temperature": 0, "ignore_eos": True}
        sampling = SamplingParams(**(usual | more))
        name = f"r{next(_numbers)}"
        generation = Generation(
            request_id=name,
            attempt=1,
            model="m",
            prompt_token_ids=prompt,
            output_token_ids=output,
            sampling_params=sampling,
            gateway_id="g",
            cache_salt=salt,
        )
        member = pb.BatchMember(generation=generation)
        member.remaining_duration.FromMilliseconds(int(seconds * 1000))
        if source:
            facts = pb.PrefillSource(worker_id="source", address=source, held_only=held_only)
            member.prefill_source.CopyFrom(facts)
        assert self.runtime.accept_batch(to_assignments([member]), 0) == [None]
        return name

    async def tokens(self, name: str) -> tuple[list[int], int]:
        """Reads until a request has ended. Returns its tokens, and how many of its prompt were found in the cache."""
        found: list[int] = []
        cached = 0
        async with asyncio.timeout(SECONDS):
            while True:
                frame = await self.outbox.next_frame(1.0)
                assert frame is not None
                for delta in to_frame(frame).deltas:
                    if delta.request_id == name:
                        if delta.HasField("error"):
                            raise from_status(delta.error)
                        found += delta.token_ids
                        cached = max(cached, delta.cached_token_count)
                        if delta.finish_reason:
                            return found, cached

    async def until_made(self, name: str, count: int) -> None:
        """Reads until a request has so many tokens."""
        found = 0
        async with asyncio.timeout(SECONDS):
            while found < count:
                frame = await self.outbox.next_frame(1.0)
                assert frame is not None
                found += sum(len(delta.token_ids) for delta in to_frame(frame).deltas if delta.request_id == name)

    async def run(self, **asked: Any) -> tuple[list[int], int]:
        return await self.tokens(await self.ask(**asked))

    async def settle(self) -> None:
        """Waits until nothing of any request or transfer is left."""
        deadline = time.monotonic() + SECONDS
        while True:
            stats = await self.runtime.thread.call(self.engine.stats, SECONDS)
            exports = self.runtime.transfers.exports
            if not (stats.used_block_count or stats.running_count or len(self.runtime.sessions) or exports):
                break
            assert time.monotonic() < deadline
            await asyncio.sleep(0.005)
        await self.runtime.thread.call(self.engine.check_invariants, SECONDS)


async def serve(
    engine: TextEngine,
    stack: AsyncExitStack,
    role: WorkerRole = WorkerRole.BOTH,
    kv_folder: Path | None = None,
    store: SharedStore | None = None,
) -> Worker:
    """Starts a worker, which keeps KV blocks in a folder and in a store if there are."""
    runtime, exchange, kept = Runtime(engine, "m", attach_seconds=60.0), exchange_of(engine), None
    if kv_folder is not None and exchange is not None:
        kept = KeptBlocks.open(kv_folder, exchange.layout, exchange.block_bytes, KEPT_BYTES)
        assert kept is not None
    runtime.transfers.open(exchange, role, open_channel, kept, store)
    board = StatusBoard(runtime, "w", 1, "m", DeviceRates())
    runtime.start(board.on_change, lambda _events: None)
    stack.callback(runtime.stop)
    servicer = WorkerServicer(runtime, board, "w", 1, lambda _patience: None, lambda _model, _is_pinned: None)
    server = Server(lambda one: worker_pb2_grpc.add_WorkerServiceServicer_to_server(servicer, one), ["w"], "")
    address = await server.start("127.0.0.1:0", "")
    stack.push_async_callback(server.stop, 0.0)
    return Worker(runtime, engine, server, address, runtime.attach("g"))


async def until_asked(source: Worker) -> None:
    """Waits until a prompt is computed for another worker."""
    deadline = time.monotonic() + SECONDS
    while not source.runtime.transfers.exports:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
async def pair(folder: Path, stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch) -> tuple[Worker, Worker]:
    """A worker that computes prompts, and one that goes on. Messages have a block each."""
    monkeypatch.setattr(block_exports, "PACKET_BYTES", 1)
    return await serve(load(folder), stack, WorkerRole.PREFILL), await serve(load(folder), stack, WorkerRole.DECODE)


async def test_tokens_are_equal_and_the_prompt_is_computed_once(pair: tuple[Worker, Worker]) -> None:
    source, target = pair
    expected, _ = await target.run(salt="alone")
    assert await target.run(salt="apart", source=source.address) == (expected, BLOCK_COUNT * BLOCK_SIZE)
    assert target.runtime.transfers.status.bytes_per_second > 0
    await source.settle()
    await target.settle()
    assert (await source.runtime.thread.call(source.engine.stats, SECONDS)).prompt_token_count == 9 * BLOCK_SIZE
    # Both have the blocks now: nothing is computed nor sent for the same prompt.
    assert await target.run(salt="apart", source=source.address) == (expected, BLOCK_COUNT * BLOCK_SIZE)


async def test_a_holder_gives_what_it_has_and_computes_nothing(pair: tuple[Worker, Worker]) -> None:
    source, target = pair
    shared, longer = PROMPT[: 4 * BLOCK_SIZE + 1], PROMPT
    expected, _ = await target.run(salt="alone", prompt=longer)
    await source.run(salt="shared", prompt=shared)
    computed = (await source.runtime.thread.call(source.engine.stats, SECONDS)).prompt_token_count
    asked = {"salt": "shared", "source": source.address, "held_only": True, "prompt": longer}
    assert await target.run(**asked) == (expected, 4 * BLOCK_SIZE)
    assert await target.run(**(asked | {"salt": "another tenant"})) == (expected, 0)
    assert (await source.runtime.thread.call(source.engine.stats, SECONDS)).prompt_token_count == computed
    await source.settle()
    await target.settle()


async def test_tokens_are_equal_when_the_transfer_is_cut_at_20_random_points(pair: tuple[Worker, Worker]) -> None:
    source, target = pair
    expected, _ = await target.run(salt="alone")
    size = BLOCK_COUNT * (source.runtime.transfers.status.block_bytes + 100)
    chance = random.Random(14)
    cut_count, cached_counts = 0, set[int]()
    for number in range(20):
        # One to three cuts: after the third there is no further try.
        limits = [chance.randrange(1, size) // (1 + tries) for tries in range(1 + number % 3)]
        async with CuttingProxy(source.address, limits) as proxy:
            found, cached = await target.run(salt=f"cut {number}", source=proxy.address)
            assert found == expected, limits
            cut_count += proxy.cut_count
            cached_counts.add(cached)
    assert cut_count >= 20
    assert max(cached_counts) == BLOCK_COUNT * BLOCK_SIZE, "some transfers went on to the end"
    await source.settle()
    await target.settle()


async def test_a_cut_transfer_that_is_not_resumed_is_computed_here_from_where_it_was(
    pair: tuple[Worker, Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_source, "RESUME_COUNT", 0)
    source, target = pair
    expected, _ = await target.run(salt="alone")
    cached = 0
    for number in range(TRIES):
        async with CuttingProxy(source.address, [4 * source.runtime.transfers.status.block_bytes]) as proxy:
            found, cached = await target.run(salt=f"cut {number}", source=proxy.address)
        assert found == expected
        assert cached < BLOCK_COUNT * BLOCK_SIZE
        if cached:
            break
    assert cached


async def test_a_worker_that_stops_hands_over_what_it_has_and_computes_nothing(pair: tuple[Worker, Worker]) -> None:
    source, target = pair
    expected, _ = await target.run(salt="alone", max_token_count=60)
    name = await source.ask(salt="left", max_token_count=3000)
    await source.until_made(name, 40)
    draining = asyncio.create_task(drain(source.runtime, 0.0, Deadline.after(SECONDS)))
    with pytest.raises(WorkerStopping):
        await source.tokens(name)
    computed = (await source.runtime.thread.call(source.engine.stats, SECONDS)).prompt_token_count
    known = expected[:40]
    found = await target.run(salt="left", source=source.address, output=known, max_token_count=60)
    assert found == (expected[40:], len(PROMPT)), "its last block has output, too"
    assert await target.run(salt="unknown here", source=source.address, max_token_count=60) == (expected, 0)
    assert (await source.runtime.thread.call(source.engine.stats, SECONDS)).prompt_token_count == computed
    await draining
    await source.settle()


async def test_damaged_blocks_are_refused_and_asked_for_again(pair: tuple[Worker, Worker], tmp_path: Path) -> None:
    source, target = pair
    expected, _ = await target.run(salt="alone")
    failpoints.arm(tmp_path)
    try:
        (tmp_path / "prefill.packet").write_text("once damage")
        assert await target.run(salt="once", source=source.address) == (expected, BLOCK_COUNT * BLOCK_SIZE)
        (tmp_path / "prefill.packet").write_text("damage")
        assert await target.run(salt="always", source=source.address) == (expected, 0)
    finally:
        failpoints.arm(None)


async def test_another_layout_is_refused(folder: Path, stack: AsyncExitStack, pair: tuple[Worker, Worker]) -> None:
    source, target = await serve(load(folder, kv_precision="int8"), stack), pair[1]
    expected, _ = await target.run(salt="alone")
    assert await target.run(salt="apart", source=source.address) == (expected, 0)
    async with open_channel(source.address) as channel:
        client, request = GrpcWorkerClient(channel), pb.PrefillRequest(token_ids=PROMPT, block_layout="x")
        with pytest.raises(Unsupported, match="mean something else"):
            await anext(client.prefill(request, SECONDS))
        request.block_layout = source.runtime.transfers.status.layout
        request.token_ids.append(10_000)
        with pytest.raises(InvalidRequest, match="token id 10000"):
            await anext(client.prefill(request, SECONDS))
    async with open_channel(target.address) as channel:
        with pytest.raises(Unsupported, match="computes no prompts"):
            await anext(GrpcWorkerClient(channel).prefill(pb.PrefillRequest(), SECONDS))


async def test_a_source_that_dies_in_the_middle_costs_no_token(pair: tuple[Worker, Worker], tmp_path: Path) -> None:
    source, target = pair
    expected, _ = await target.run(salt="alone")
    failpoints.arm(tmp_path)
    try:
        (tmp_path / "prefill.send").write_text("sleep 0.05")
        name = await target.ask(salt="dies", source=source.address)
        await until_asked(source)
        await source.server.stop(0.0)
        found, cached = await target.tokens(name)
    finally:
        failpoints.arm(None)
    assert found == expected
    assert cached < BLOCK_COUNT * BLOCK_SIZE
    await target.settle()


async def test_a_source_that_is_not_there_or_too_slow_costs_no_token(
    pair: tuple[Worker, Worker], tmp_path: Path
) -> None:
    source, target = pair
    expected, _ = await target.run(salt="alone")
    assert await target.run(salt="not there", source="127.0.0.1:1") == (expected, 0)
    failpoints.arm(tmp_path)
    try:
        (tmp_path / "prefill.send").write_text("sleep 5")
        started = time.monotonic()
        assert await target.run(salt="slow", source=source.address, seconds=4.0) == (expected, 0)
        assert time.monotonic() - started < 3.0
    finally:
        failpoints.arm(None)


async def test_a_request_that_is_cancelled_ends_its_transfer(pair: tuple[Worker, Worker], tmp_path: Path) -> None:
    source, target = pair
    failpoints.arm(tmp_path)
    try:
        (tmp_path / "prefill.send").write_text("sleep 0.3")
        name = await target.ask(salt="cancelled", source=source.address)
        await until_asked(source)
        target.runtime.cancel(name, 1)
        assert len(target.runtime.sessions) == 0
        await source.settle()
        await target.settle()
    finally:
        failpoints.arm(None)


async def test_many_transfers_at_once_under_little_memory(
    folder: Path, stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leases yield to requests, on both sides, and no request waits forever."""
    monkeypatch.setattr(block_exports, "PACKET_BYTES", 1)
    source = await serve(load(folder, block_count=24), stack, WorkerRole.PREFILL)
    target = await serve(load(folder, block_count=24), stack, WorkerRole.DECODE)
    prompts = [tuple(PROMPT[shift:] + PROMPT[:shift]) for shift in range(8)]
    expected = [(await target.run(salt="alone", prompt=prompt))[0] for prompt in prompts]
    outputs: dict[str, list[int]] = {}
    names = [await target.ask(salt="apart", source=source.address, prompt=prompt) for prompt in prompts]
    ended = 0
    async with asyncio.timeout(SECONDS):
        while ended < len(names):
            frame = await target.outbox.next_frame(1.0)
            assert frame is not None
            for delta in to_frame(frame).deltas:
                assert not delta.HasField("error"), delta.error
                outputs.setdefault(delta.request_id, []).extend(delta.token_ids)
                ended += bool(delta.finish_reason)
    assert [outputs[name] for name in names] == expected
    await source.settle()
    await target.settle()
