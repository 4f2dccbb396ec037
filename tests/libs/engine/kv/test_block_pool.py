"""Ref counts, order of reuse, and what the prefix cache remembers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.engine.kv.block_pool import BlockPool
from headrace.kv.block_hash import extend_hashes, hash_blocks


def test_the_tail_of_a_table_is_reused_first() -> None:
    pool = BlockPool(4)
    table = pool.allocate(4)
    hashes = hash_blocks(range(16), 4, "")
    for block, block_hash in zip(table, hashes, strict=True):
        pool.publish(block, block_hash)
    pool.release(table)
    assert pool.find(hashes) == table
    assert pool.allocate(1) == [table[3]]
    assert pool.find(hashes) == table[:3]


def test_unfindable_blocks_are_reused_before_cached_ones() -> None:
    pool = BlockPool(3)
    cached, plain = pool.allocate(1), pool.allocate(2)
    pool.publish(cached[0], b"x")
    pool.release(cached)
    pool.release(plain)
    assert set(pool.allocate(2)) == set(plain)
    assert pool.find([b"x"]) == cached


def test_shared_blocks_stay_until_the_last_reader_leaves() -> None:
    pool = BlockPool(2)
    table = pool.allocate(1)
    pool.publish(table[0], b"x")
    pool.share(pool.find([b"x"]))
    pool.release(table)
    assert pool.used_count == 1
    pool.release(table)
    assert pool.used_count == 0
    pool.share(pool.find([b"x"]))
    assert pool.used_count == 1


def test_more_than_there_is_is_refused() -> None:
    with pytest.raises(ValueError, match="3 blocks wanted, 2 free"):
        BlockPool(2).allocate(3)


def test_events_are_the_net_change() -> None:
    pool = BlockPool(1)
    (block,) = pool.allocate(1)
    pool.publish(block, b"a")
    assert pool.drain_events().stored == (b"a",)
    pool.release([block])
    pool.allocate(1)
    pool.publish(block, b"b")
    pool.release([block])
    pool.allocate(1)
    events = pool.drain_events()
    assert (events.stored, events.removed) == ((), (b"a",))


def test_a_pool_without_prefix_cache_finds_nothing() -> None:
    pool = BlockPool(1, prefix_cache=False)
    pool.publish(pool.allocate(1)[0], b"x")
    assert pool.find([b"x"]) == []


@given(st.lists(st.integers(0, 1000), max_size=40), st.lists(st.integers(0, 1000), max_size=40), st.integers(1, 8))
def test_hashes_agree_exactly_as_far_as_the_full_blocks_do(left: list[int], right: list[int], block_size: int) -> None:
    first, second = hash_blocks(left, block_size, "s"), hash_blocks(right, block_size, "s")
    assert len(first) == len(left) // block_size
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        end = (index + 1) * block_size
        assert (one == other) == (left[:end] == right[:end])
    blocks = [left[start : start + block_size] for start in range(0, len(left) - block_size + 1, block_size)]
    hashes = first[:1]
    extend_hashes(hashes, b"of no use to a second block", blocks[1:])
    assert hashes == first


def test_salts_never_share() -> None:
    assert not set(hash_blocks(range(32), 4, "a")) & set(hash_blocks(range(32), 4, "b"))


@settings(deadline=None)
@given(st.data())
def test_books_agree_after_any_operations(data: st.DataObject) -> None:
    pool = BlockPool(6)
    tables: list[list[int]] = []
    serial = 0
    findable: set[bytes] = set()
    for _ in range(data.draw(st.integers(1, 40))):
        operation = data.draw(st.sampled_from(["allocate", "share", "publish", "release", "drain"]))
        if operation == "allocate" and pool.free_count:
            tables.append(pool.allocate(data.draw(st.integers(1, pool.free_count))))
        elif operation == "share" and tables:
            table = data.draw(st.sampled_from(tables))
            pool.share(table)
            tables.append(list(table))
        elif operation == "publish" and tables:
            serial += 1
            pool.publish(data.draw(st.sampled_from(tables))[0], serial.to_bytes(16, "big"))
        elif operation == "release" and tables:
            pool.release(tables.pop(data.draw(st.integers(0, len(tables) - 1))))
        elif operation == "drain":
            events = pool.drain_events()
            findable = (findable | set(events.stored)) - set(events.removed)
            assert findable == set(pool._blocks)
        pool.check_invariants(tables)
        assert pool.free_count + pool.used_count == pool.block_count
