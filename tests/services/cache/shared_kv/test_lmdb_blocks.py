"""The store of a cache keeps what it was given, within its bytes, over restarts, and never fails a caller."""

import asyncio
import contextlib
import errno
import random
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from headrace.cache.shared_kv import lmdb_blocks
from headrace.cache.shared_kv.lmdb_blocks import LmdbBlocks
from headrace.cache.shared_kv.lmdb_table import MAX_UNCLEAN_ENDS, LmdbTable
from headrace.cache.shared_kv.opened_blocks import opened_blocks
from headrace.cache.shared_kv.shared_kv_blocks import keys_of
from headrace.errors import InvalidRequest

pytestmark = pytest.mark.anyio
MEGABYTE = 2**20
LAYOUT = "0123456789abcdef"


def keys(numbers: Iterable[int], layout: str = LAYOUT) -> list[bytes]:
    return keys_of(layout, [number.to_bytes(16, "little") for number in numbers])


def records(numbers: Iterable[int], size: int = 20_000) -> list[tuple[bytes, bytes]]:
    chosen = list(numbers)
    return [(key, random.Random(number).randbytes(size)) for number, key in zip(chosen, keys(chosen), strict=True)]


@contextlib.asynccontextmanager
async def opened(folder: Path, max_bytes: int = 8 * MEGABYTE) -> AsyncIterator[LmdbBlocks]:
    blocks = LmdbBlocks(LmdbTable(folder, max_bytes), max_bytes)
    yield blocks
    await blocks.close()


async def test_records_outlive_the_process_and_are_the_users_alone(tmp_path: Path) -> None:
    async with opened(tmp_path / "kv") as blocks:
        assert await blocks.wanted(keys(range(4))) == keys(range(4))
        assert await blocks.write(records(range(3))) == 3
        assert await blocks.wanted(keys(range(4))) == keys([3])
        assert await blocks.held(keys([0, 1, 9, 2])) == 2
    assert (tmp_path / "kv").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "kv").iterdir()} == {0o600}
    async with opened(tmp_path / "kv") as blocks:
        assert await blocks.read(keys([0, 1, 9, 2])) == [record for _, record in records(range(2))]
        assert await blocks.read(keys([9, 0])) == []
        assert await blocks.read(keys(range(3), "f" * 16)) == []


async def test_what_is_not_used_gives_way(tmp_path: Path) -> None:
    async with opened(tmp_path, 4 * MEGABYTE) as blocks:
        await blocks.write(records(range(20)))
        await blocks.write(records(range(20, 40)))
        assert len(await blocks.read(keys(range(20)))) == 20
        for first in range(100, 260, 20):
            await blocks.write(records(range(first, first + 20)))
        assert await blocks.held(keys(range(20))) == 20
        assert await blocks.wanted(keys(range(20, 40))) == keys(range(20, 40))


async def test_the_end_of_a_prompt_gives_way_before_its_beginning(tmp_path: Path) -> None:
    async with opened(tmp_path) as blocks:
        await blocks.write(records(range(4)))
        await blocks.write(records([4, 5]))
        await blocks.read(keys(range(4)))
        await blocks._free(2 * 20_000)
        assert await blocks.wanted(keys(range(6))) == keys([4, 5])
        await blocks._free(2 * 20_000)
        assert await blocks.wanted(keys(range(6))) == keys([2, 3, 4, 5])


async def test_it_keeps_to_its_bytes_with_blocks_of_many_sizes(tmp_path: Path) -> None:
    dice = random.Random(1)
    async with opened(tmp_path) as blocks:
        for batch in range(60):
            size = dice.choice((900, 5_000, 70_000, 300_000))
            numbers = range(8 * batch, 8 * batch + 8)
            assert await blocks.write(records(numbers, size)) == 8
            found = await blocks.read(keys(numbers))
            assert found == [record for _, record in records(numbers, size)][: len(found)]
            assert found
        assert (tmp_path / "data.mdb").stat().st_size <= 8 * MEGABYTE
        held = len(blocks)
    async with opened(tmp_path) as blocks:
        assert len(blocks) == held > 8


async def test_a_record_replaces_the_earlier_one_of_its_key(tmp_path: Path) -> None:
    async with opened(tmp_path) as blocks:
        (key,) = keys([1])
        await blocks.write([(key, b"damaged")])
        await blocks.write([(key, b"whole")])
        assert await blocks.read([key]) == [b"whole"]
        assert len(blocks) == 1


async def test_a_run_comes_in_packets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lmdb_blocks, "PACKET_BYTES", 50_000)
    async with opened(tmp_path) as blocks:
        await blocks.write(records(range(5)))
        assert len(await blocks.read(keys(range(5)))) == 2
        await blocks.write(records([9], 100_000))
        assert len(await blocks.read(keys([9, 0]))) == 1


async def test_a_full_disk_drops_blocks_and_wants_none_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path) as blocks:
        await blocks.write(records([1]))

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(LmdbTable, "put", full)
            assert await blocks.write(records([2])) == 0
        assert "KV blocks were not stored" in caplog.messages
        assert await blocks.wanted(keys([2])) == []
        assert await blocks.write(records([2])) == 0
        assert len(await blocks.read(keys([1]))) == 1
        monkeypatch.setattr(blocks, "_resting_until", 0.0)
        assert await blocks.write(records([2])) == 1


async def test_a_disk_that_cannot_be_read_has_no_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(tmp_path) as blocks:
        await blocks.write(records([1]))

        def fail(*_: object) -> None:
            raise OSError(errno.EIO, "dead")

        with monkeypatch.context() as patch:
            patch.setattr(LmdbTable, "read", fail)
            assert await blocks.read(keys([1])) == []


async def test_the_queue_is_bounded_and_a_caller_that_gives_up_leaves_nothing_unaccounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lmdb_blocks, "MAX_QUEUED_BYTES", 60_000)
    async with opened(tmp_path) as blocks:
        writing = asyncio.create_task(blocks.write(records([1, 2])))
        await asyncio.sleep(0)
        assert await blocks.write(records([3])) == 0
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await asyncio.gather(*blocks._jobs)
        assert len(blocks) == 2
        assert await blocks.write(records([3])) == 1
        assert await blocks.write(records([4], 6 * MEGABYTE)) == 0


async def test_writes_that_wait_when_it_is_closed_are_dropped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No error of threads that have ended reaches a caller."""
    async with opened(tmp_path) as blocks:
        await blocks.write(records(range(20)))
        writing = [asyncio.create_task(blocks.write(records([number]))) for number in range(30, 38)]
        await asyncio.sleep(0)
    outcomes = await asyncio.gather(*writing, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} <= {int, asyncio.CancelledError}, outcomes
    assert 0 in outcomes
    assert await blocks.read(keys([0])) == []
    assert "KV blocks were not stored" in caplog.messages


@pytest.mark.parametrize("reason", ["no database", "larger", "crashes"])
async def test_a_table_that_cannot_be_trusted_begins_empty(reason: str, tmp_path: Path) -> None:
    async with opened(tmp_path) as blocks:
        await blocks.write(records(range(100)))
    if reason == "no database":
        (tmp_path / "data.mdb").write_bytes(b"no database" * 1000)
    if reason == "crashes":
        (tmp_path / "unclean-ends").write_text(str(MAX_UNCLEAN_ENDS))
    async with opened(tmp_path, MEGABYTE if reason == "larger" else 8 * MEGABYTE) as blocks:
        assert len(blocks) == 0
        assert await blocks.write(records([1])) == 1


async def test_a_process_that_is_killed_leaves_its_blocks(tmp_path: Path) -> None:
    async with opened(tmp_path) as blocks:
        await blocks.write(records([1]))
    (tmp_path / "unclean-ends").write_text(str(MAX_UNCLEAN_ENDS - 1))
    async with opened(tmp_path) as blocks:
        assert len(blocks) == 1
    assert not (tmp_path / "unclean-ends").exists()


async def test_a_cache_without_room_or_folder_has_no_store(tmp_path: Path) -> None:
    async with opened_blocks(tmp_path, 0) as blocks:
        assert blocks is None
    (tmp_path / "kv").write_text("a file")
    async with opened_blocks(tmp_path, MEGABYTE) as blocks:
        assert blocks is None


@pytest.mark.parametrize(("layout", "name"), [("", bytes(16)), ("a/b", bytes(16)), ("a" * 65, bytes(16)), ("a", b"b")])
def test_keys_are_of_layouts_and_hashes(layout: str, name: bytes) -> None:
    with pytest.raises(InvalidRequest):
        keys_of(layout, [name])
