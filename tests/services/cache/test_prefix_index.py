"""The index knows who holds which leading blocks, and stays bounded."""

from headrace.cache.prefix_index import PrefixIndex
from headrace.kv.held_prefix import HeldPrefix
from headrace.kv.kept_name import kept_name

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16


def test_leading_blocks_without_gaps() -> None:
    index = PrefixIndex(100)
    index.change("w1", "m", [A, B, C], [])
    index.change("w2", "m", [A, C], [])
    assert index.match("m", [A, B, C]) == {"w1": HeldPrefix(3), "w2": HeldPrefix(1)}
    assert index.match("other", [A]) == {}
    assert index.match("m", [b"x" * 16, A]) == {}


def test_blocks_on_a_disk_continue_those_in_memory() -> None:
    index = PrefixIndex(100)
    index.change("w1", "m", [A, kept_name(A), kept_name(B), kept_name(C)], [])
    index.change("w2", "m", [kept_name(A), B], [])
    index.change("w3", "m", [A, B, C], [])
    index.change("w4", "m", [B, kept_name(C)], [])
    assert index.match("m", [A, B, C]) == {"w1": HeldPrefix(1, 2), "w2": HeldPrefix(0, 2), "w3": HeldPrefix(3)}
    index.change("w1", "m", [], [kept_name(B)])
    assert index.match("m", [A, B, C])["w1"] == HeldPrefix(1)
    index.forget("w2")
    assert index.match("m", [A]).keys() == {"w1", "w3"}


def test_removed_replaced_and_forgotten() -> None:
    index = PrefixIndex(100)
    index.change("w1", "m", [A, B], [])
    index.change("w1", "m", [], [B])
    assert index.match("m", [A, B]) == {"w1": HeldPrefix(1)}
    index.change("w2", "m", [A], [])
    index.replace("w1", "m", [C])
    assert index.match("m", [A]) == {"w2": HeldPrefix(1)}
    assert index.match("m", [C]) == {"w1": HeldPrefix(1)}
    assert index.held("w1", "m") == {C}
    assert index.held("w1", "other") == set()
    index.replace("w1", "other", [C])
    assert index.match("m", [C]) == {}
    assert index.match("other", [C]) == {"w1": HeldPrefix(1)}
    index.forget("w1")
    index.forget("w2")
    assert len(index) == 0


def test_a_block_that_is_forgotten_for_its_age_is_forgotten_everywhere() -> None:
    index = PrefixIndex(2)
    for worker in ("w1", "w2"):
        index.change(worker, "m", [A, B], [])
    index.change("w1", "m", [C], [])
    assert index.match("m", [A]) == {}
    assert index.match("m", [B]) == {"w1": HeldPrefix(1), "w2": HeldPrefix(1)}
    index.forget("w1")
    assert index.match("m", [B]) == {"w2": HeldPrefix(1)}
    assert len(index) == 1


def test_bounded() -> None:
    index = PrefixIndex(10)
    hashes = [number.to_bytes(16, "big") for number in range(50)]
    index.change("w1", "m", hashes, [])
    assert len(index) == 10
    index.replace("w1", "m", hashes)
    assert len(index) == len(index.held("w1", "m")) == 10
