"""Prompts that another worker computed are continued from the store, with the tokens that they would have had."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from tests.libs.engine.tiny_models import make_prompts
from tests.services.worker.transfer.test_block_transfer import BLOCK_COUNT, BLOCK_SIZE, PROMPT, SECONDS, Worker, load
from tests.services.worker.transfer.test_block_transfer import folder as folder
from tests.services.worker.transfer.test_block_transfer import serve as serve_worker

from headrace import failpoints
from headrace.cache.servicer import CacheServicer
from headrace.cache.shared_kv import lmdb_blocks
from headrace.cache.shared_kv.lmdb_blocks import LmdbBlocks
from headrace.cache.shared_kv.lmdb_table import LmdbTable
from headrace.engine.kv.block_exchange import exchange_of
from headrace.kv.block_hash import hash_blocks
from headrace.rpc.channel import open_channel
from headrace.rpc.server import Server
from headrace.v1 import cache_pb2_grpc
from headrace.worker.transfer.kept.kept_metrics import READ_BLOCKS
from headrace.worker.transfer.kept.slot_header import HEADER_BYTES
from headrace.worker.transfer.stored import shared_store, store_link
from headrace.worker.transfer.stored.shared_store import SharedStore
from headrace.worker.transfer.stored.store_metrics import REFUSED_STORED, STORE_ASKS, STORE_READ_BLOCKS

pytestmark = pytest.mark.anyio
WHOLE = BLOCK_COUNT * BLOCK_SIZE
MAX_BYTES = 8 << 20


@dataclass
class Cache:
    """The part of a cache that workers share blocks through."""

    address: str
    server: Server
    blocks: LmdbBlocks | None
    table: LmdbTable


async def open_cache(folder: Path, stack: AsyncExitStack, *, is_enabled: bool = True) -> Cache:
    table = LmdbTable(folder, MAX_BYTES)
    blocks = LmdbBlocks(table, MAX_BYTES)
    stack.push_async_callback(blocks.close)
    nothing = cast("Any", None)
    servicer = CacheServicer(nothing, nothing, nothing, 1.0, blocks if is_enabled else None)
    server = Server(lambda one: cache_pb2_grpc.add_CacheServiceServicer_to_server(servicer, one), ["c"], "")
    address = await server.start("127.0.0.1:0")
    stack.push_async_callback(server.stop, 0.0)
    return Cache(address, server, blocks, table)


async def serve(
    folder: Path, stack: AsyncExitStack, *addresses: str, kv_folder: Path | None = None, **settings: Any
) -> Worker:
    engine = load(folder, **settings)
    exchange = exchange_of(engine)
    assert exchange is not None
    store = SharedStore(addresses, open_channel, exchange.layout)
    stack.push_async_callback(store.close)
    return await serve_worker(engine, stack, kv_folder=kv_folder, store=store)


async def until_stored(cache: Cache, count: int) -> None:
    """Waits until so many blocks are in the store."""
    deadline = time.monotonic() + SECONDS
    while cache.blocks is None or len(cache.blocks) < count:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that runs other tests too may take its time."""
    monkeypatch.setattr(store_link, "PATIENCE_SECONDS", 5.0)


@pytest.fixture
async def cache(tmp_path: Path, stack: AsyncExitStack) -> Cache:
    return await open_cache(tmp_path / "kv", stack)


def total(metric: Any, **labels: str) -> float:
    one = metric.labels(**labels) if labels else metric
    return float(one._value.get())


async def test_a_worker_that_is_gone_leaves_its_prompts_to_others_of_its_tenant(
    folder: Path, tmp_path: Path, stack: AsyncExitStack
) -> None:
    async with AsyncExitStack() as life:
        cache = await open_cache(tmp_path / "kv", life)
        first = await serve(folder, life, cache.address)
        expected, cached = await first.run(salt="t")
        assert cached == 0
        await until_stored(cache, BLOCK_COUNT)
    cache = await open_cache(tmp_path / "kv", stack)
    second = await serve(folder, stack, cache.address)
    before = total(STORE_READ_BLOCKS)
    assert await second.run(salt="other") == (expected, 0)
    assert await second.run(salt="t") == (expected, WHOLE)
    assert total(STORE_READ_BLOCKS) == before + BLOCK_COUNT
    asked = sum(total(STORE_ASKS, outcome=outcome) for outcome in ("hit", "miss", "failed"))
    assert await second.run(salt="t") == (expected, WHOLE), "it is in memory now"
    await second.run(salt="short", prompt=PROMPT[:40])
    assert asked == sum(total(STORE_ASKS, outcome=outcome) for outcome in ("hit", "miss", "failed"))
    await second.settle()


async def test_the_store_continues_where_the_disk_ends(
    folder: Path, tmp_path: Path, stack: AsyncExitStack, cache: Cache
) -> None:
    first = await serve(folder, stack, cache.address)
    expected, _ = await first.run(salt="t")
    await until_stored(cache, BLOCK_COUNT)
    second = await serve(folder, stack, cache.address, kv_folder=tmp_path / "disk")
    names = hash_blocks(PROMPT[:-1], BLOCK_SIZE, "t")
    layout = second.runtime.transfers.status.layout
    records = cache.table.read([layout.encode() + name for name in names])
    disk = second.runtime.transfers.keepers[0].sink
    await disk.write([(name, record[HEADER_BYTES:]) for name, record in zip(names[:3], records, strict=False)])
    read, stored = total(READ_BLOCKS), total(STORE_READ_BLOCKS)
    assert await second.run(salt="t") == (expected, WHOLE)
    assert (total(READ_BLOCKS) - read, total(STORE_READ_BLOCKS) - stored) == (3, BLOCK_COUNT - 3)
    await second.settle()


def flip(record: bytes, _other: bytes) -> bytes:
    return record[:-1] + bytes([record[-1] ^ 4])


def cut(record: bytes, _other: bytes) -> bytes:
    return record[:-7]


def swap(_record: bytes, other: bytes) -> bytes:
    return other


def mix(record: bytes, other: bytes) -> bytes:
    return record[:HEADER_BYTES] + other[HEADER_BYTES:]


def lose(_record: bytes, _other: bytes) -> bytes:
    return b""


FAULTS: dict[str, Callable[[bytes, bytes], bytes]] = {
    "a bit": flip,
    "an end": cut,
    "another block": swap,
    "another content": mix,
    "nothing": lose,
}


async def test_damaged_records_are_misses_and_are_written_again(
    folder: Path, stack: AsyncExitStack, cache: Cache
) -> None:
    """Each fault has a tenant of its own, and damages another block of its prompt."""
    first = await serve(folder, stack, cache.address)
    layout = first.runtime.transfers.status.layout.encode()
    expected = []
    for number, salt in enumerate(FAULTS, 1):
        expected.append((await first.run(salt=salt))[0])
        await until_stored(cache, number * BLOCK_COUNT)
    assert len(set(map(tuple, expected))) == 1
    for place, (salt, fault) in enumerate(FAULTS.items()):
        keys = [layout + name for name in hash_blocks(PROMPT[:-1], BLOCK_SIZE, salt)]
        found = cache.table.read(keys)
        cache.table.put([(keys[place], fault(found[place], found[place + 1]))])
    refused = total(REFUSED_STORED, reason="damaged")
    second, third = await serve(folder, stack, cache.address), await serve(folder, stack, cache.address)
    for place, salt in enumerate(FAULTS):
        assert await second.run(salt=salt) == (expected[0], place * BLOCK_SIZE)
    assert total(REFUSED_STORED, reason="damaged") == refused + len(FAULTS)
    keeper = second.runtime.transfers.keepers[0]
    deadline = time.monotonic() + SECONDS
    while cache.table.read(keys)[place][:HEADER_BYTES] != found[place][:HEADER_BYTES] or keeper._pending:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)
    for salt in FAULTS:
        assert await third.run(salt=salt) == (expected[0], WHOLE)
    for worker in (first, second, third):
        await worker.settle()


async def test_blocks_of_other_weights_are_not_there(folder: Path, stack: AsyncExitStack, cache: Cache) -> None:
    """All that makes a layout is in the key, and in the checksum even where a key is wrong."""
    first = await serve(folder, stack, cache.address)
    expected, _ = await first.run()
    await until_stored(cache, BLOCK_COUNT)
    other = await serve(folder, stack, cache.address, kv_precision="int8")
    assert other.runtime.transfers.status.layout != first.runtime.transfers.status.layout
    tokens, cached = await other.run(salt="alone")
    assert cached == 0
    names = hash_blocks(PROMPT[:-1], BLOCK_SIZE, "")
    layouts = [worker.runtime.transfers.status.layout.encode() for worker in (first, other)]
    found = cache.table.read([layouts[0] + name for name in names])
    records = [(layouts[1] + name, record) for name, record in zip(names, found, strict=True)]
    assert cache.blocks is not None
    assert await cache.blocks.write(records) == BLOCK_COUNT
    assert await other.run() == (tokens, 0)
    assert (await first.run())[0] == expected


async def test_a_store_that_is_not_there_costs_no_request_and_is_left_alone(
    folder: Path, stack: AsyncExitStack, cache: Cache
) -> None:
    worker = await serve(folder, stack, cache.address)
    expected, _ = await worker.run(salt="t")
    await until_stored(cache, BLOCK_COUNT)
    await cache.server.stop(0.0)
    failed = total(STORE_ASKS, outcome="failed")
    for salt in ("a", "b", "c"):
        started = time.monotonic()
        assert await worker.run(salt=salt) == (expected, 0)
        assert time.monotonic() - started < 3.0
    assert total(STORE_ASKS, outcome="failed") <= failed + 1
    await worker.settle()


async def test_a_slow_store_delays_one_request_by_its_patience(
    folder: Path, tmp_path: Path, stack: AsyncExitStack, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await serve(folder, stack, cache.address)
    expected, _ = await worker.run(salt="t")
    monkeypatch.setattr(store_link, "PATIENCE_SECONDS", 0.05)
    failed = total(STORE_ASKS, outcome="failed")
    failpoints.arm(tmp_path)
    try:
        (tmp_path / "cache.blocks").write_text("sleep 5")
        for salt in ("a", "b", "c"):
            started = time.monotonic()
            assert await worker.run(salt=salt) == (expected, 0)
            assert time.monotonic() - started < 3.0
    finally:
        failpoints.arm(None)
    assert total(STORE_ASKS, outcome="failed") == failed + 1
    await worker.settle()


async def test_a_store_that_dies_in_the_middle_costs_no_token(
    folder: Path, tmp_path: Path, stack: AsyncExitStack, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lmdb_blocks, "PACKET_BYTES", 1)
    first = await serve(folder, stack, cache.address)
    expected, _ = await first.run(salt="t")
    await until_stored(cache, BLOCK_COUNT)
    second = await serve(folder, stack, cache.address)
    read = total(STORE_READ_BLOCKS)
    failpoints.arm(tmp_path)
    try:
        (tmp_path / "cache.blocks").write_text("sleep 0.05")
        name = await second.ask(salt="t")
        deadline = time.monotonic() + SECONDS
        while total(STORE_READ_BLOCKS) == read:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.002)
        await cache.server.stop(0.0)
        tokens, cached = await second.tokens(name)
    finally:
        failpoints.arm(None)
    assert tokens == expected
    assert 0 < cached < WHOLE
    await second.settle()


async def test_a_request_that_is_cancelled_meanwhile_leaves_nothing(
    folder: Path, tmp_path: Path, stack: AsyncExitStack, cache: Cache
) -> None:
    worker = await serve(folder, stack, cache.address)
    failpoints.arm(tmp_path)
    try:
        (tmp_path / "cache.blocks").write_text("sleep 0.2")
        name = await worker.ask(salt="t")
        await asyncio.sleep(0.05)
        worker.runtime.cancel(name, 1)
        await worker.settle()
    finally:
        failpoints.arm(None)
    assert (await worker.run(salt="t"))[1] == 0


async def test_a_cache_without_a_store_is_no_store(folder: Path, tmp_path: Path, stack: AsyncExitStack) -> None:
    cache = await open_cache(tmp_path / "kv", stack, is_enabled=False)
    worker = await serve(folder, stack, cache.address, "127.0.0.1:1")
    expected, _ = await worker.run()
    assert await worker.run(salt="t") == (expected, 0)
    await worker.settle()


@pytest.mark.parametrize("rank", range(3))
async def test_workers_meet_at_the_next_cache_while_one_does_not_answer(
    folder: Path, stack: AsyncExitStack, cache: Cache, monkeypatch: pytest.MonkeyPatch, rank: int
) -> None:
    addresses = ["127.0.0.1:1", "127.0.0.1:2"]
    addresses.insert(2 - rank, cache.address)
    monkeypatch.setattr(shared_store, "_weight", lambda address, _: addresses.index(address))
    first, second = await serve(folder, stack, *addresses), await serve(folder, stack, *reversed(addresses))
    expected, _ = await first.run(salt="t")
    await until_stored(cache, BLOCK_COUNT)
    cached = [(await second.run(salt=salt))[1] for salt in ("a", "b")]
    assert await second.run(salt="t") == (expected, WHOLE)
    assert cached == [0, 0]
    await second.settle()


async def test_a_busy_worker_stores_every_block_once(folder: Path, stack: AsyncExitStack, cache: Cache) -> None:
    worker = await serve(folder, stack, cache.address)
    prompts = make_prompts((150,) * 6, seed=13)
    names = [await worker.ask(prompt=prompt) for prompt in prompts]
    await worker.tokens(names[0])
    await worker.settle()
    await until_stored(cache, 6 * BLOCK_COUNT)
