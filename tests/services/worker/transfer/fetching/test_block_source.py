"""Blocks of a prompt are found in this engine, at another worker and in a store, behind one Protocol."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.services.worker.transfer.test_block_transfer import (
    BLOCK_COUNT,
    BLOCK_SIZE,
    PROMPT,
    SECONDS,
    Worker,
    load,
    serve,
)
from tests.services.worker.transfer.test_block_transfer import folder as folder

from headrace.domain.deadline import Deadline
from headrace.engine.contract.request import Urgency
from headrace.engine.kv.block_exchange import exchange_of
from headrace.errors import InvalidRequest, Unavailable
from headrace.rpc.channel import open_channel
from headrace.worker.transfer.block_packet import BlockPacket
from headrace.worker.transfer.fetching.block_search import BlockSearch
from headrace.worker.transfer.fetching.block_source import BlockSource
from headrace.worker.transfer.fetching.fetched_tokens import Tier
from headrace.worker.transfer.fetching.peer_source import PeerSource
from headrace.worker.transfer.fetching.pool_source import PoolSource
from headrace.worker.transfer.fetching.prefill_source import PrefillSource
from headrace.worker.transfer.fetching.transfer_rate import TransferRate
from headrace.worker.transfer.prefill_order import PrefillOrder

pytestmark = pytest.mark.anyio


class StoreSource:
    """Blocks kept by name, as a store that workers share would have them."""

    name = "store"
    tier: Tier = "worker"

    def __init__(self, contents: dict[bytes, bytes]) -> None:
        self.contents = contents

    async def find(self, search: BlockSearch) -> None:
        while not search.is_over and (content := self.contents.get(search.missing[0])) is not None:
            await search.add(BlockPacket.of(search.found_count, search.missing[:1], [content]))


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
async def worker(folder: Path, stack: AsyncExitStack) -> Worker:
    return await serve(load(folder), stack)


def search(worker: Worker, salt: str, seconds: float = SECONDS) -> BlockSearch:
    """Begins a search for the blocks of PROMPT, in the worker's engine."""
    order = PrefillOrder(tuple(PROMPT), salt, "", Urgency.DEFAULT, "", 0, seconds)
    exchange = exchange_of(worker.engine)
    assert exchange is not None
    return BlockSearch(order, BLOCK_SIZE, worker.runtime.thread, exchange, Deadline.after(seconds))


async def computed(worker: Worker, salt: str) -> dict[bytes, bytes]:
    """Contents of the blocks of PROMPT, by name, computed by the worker."""
    exchange = exchange_of(worker.engine)
    assert exchange is not None
    await worker.run(salt=salt)
    hashes = search(worker, salt).missing
    lease = await worker.runtime.thread.call(lambda: exchange.lease(hashes), SECONDS)
    contents = await worker.runtime.thread.call(lambda: exchange.export(lease, 0, len(lease)), SECONDS)
    await worker.runtime.thread.call(lambda: exchange.release(lease), SECONDS)
    return dict(zip(hashes, contents, strict=True))


async def found(source: BlockSource, wanted: BlockSearch) -> int:
    """Returns how many blocks have been found after a source was asked."""
    await source.find(wanted)
    return wanted.found_count


async def test_each_source_goes_on_where_the_one_before_ended(
    folder: Path, worker: Worker, stack: AsyncExitStack
) -> None:
    """Three blocks are here, three more in a store, and another worker computes the rest."""
    other = await serve(load(folder), stack)
    expected, _ = await other.run(salt="mixed")
    contents = await computed(other, "mixed")
    here = search(worker, "mixed")
    assert await found(StoreSource(dict(list(contents.items())[:3])), here) == 3
    here.end()
    wanted = search(worker, "mixed")
    assert await found(PoolSource(), wanted) == 3
    assert await found(StoreSource(dict(list(contents.items())[:6])), wanted) == 6
    peer = PeerSource(PrefillSource("other", other.address), open_channel, TransferRate())
    assert await found(peer, wanted) == BLOCK_COUNT
    assert wanted.is_over
    assert await worker.run(salt="mixed") == (expected, BLOCK_COUNT * BLOCK_SIZE)
    wanted.end()
    await worker.settle()
    await other.settle()


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda packet: BlockPacket(1, packet.contents, packet.checksums), Unavailable),
        (lambda packet: BlockPacket(0, [bytes(len(packet.contents[0]))], packet.checksums), Unavailable),
        (lambda packet: BlockPacket(0, [], []), Unavailable),
    ],
    ids=["another place", "another content", "nothing"],
)
async def test_blocks_that_are_not_the_next_are_refused(
    worker: Worker, damage: Callable[[BlockPacket], BlockPacket], error: type[Exception]
) -> None:
    contents = await computed(worker, "from")
    wanted = search(worker, "other")
    packet = BlockPacket.of(0, wanted.missing[:1], list(contents.values())[:1])
    with pytest.raises(error):
        await wanted.add(damage(packet))
    assert wanted.found_count == 0
    wanted.end()
    await worker.settle()


async def test_a_block_of_another_size_is_refused(worker: Worker) -> None:
    wanted = search(worker, "small")
    with pytest.raises(InvalidRequest, match="send those of the same model"):
        await wanted.add(BlockPacket.of(0, wanted.missing[:1], [b"small"]))
    wanted.end()
    await worker.settle()


async def test_a_search_is_over_where_memory_ends(folder: Path, stack: AsyncExitStack) -> None:
    other = await serve(load(folder), stack)
    small = await serve(load(folder, block_count=4, max_model_length=64), stack)
    contents = await computed(other, "large")
    wanted = search(small, "large")
    assert await found(StoreSource(contents), wanted) == 4
    assert wanted.is_over
    wanted.end()
    await small.settle()


async def test_a_search_without_time_ends(worker: Worker) -> None:
    wanted = search(worker, "late", seconds=0.0)
    with pytest.raises(TimeoutError):
        await found(PoolSource(), wanted)
    wanted.end()
    await worker.settle()
