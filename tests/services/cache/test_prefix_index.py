"""The index knows who holds which leading blocks, and stays bounded."""

from headrace.cache.prefix_index import PrefixIndex

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16


def test_leading_blocks_without_gaps() -> None:
    index = PrefixIndex(100)
    index.change("w1", 1, "m", [A, B, C], [])
    index.change("w2", 1, "m", [A, C], [])
    assert index.match("m", [A, B, C]) == {"w1": 3, "w2": 1}
    assert index.match("other", [A]) == {}
    assert index.match("m", [b"x" * 16, A]) == {}


def test_removal_and_new_lives() -> None:
    index = PrefixIndex(100)
    index.change("w1", 1, "m", [A, B], [])
    index.change("w1", 1, "m", [], [B])
    assert index.match("m", [A, B]) == {"w1": 1}
    index.change("w1", 2, "m", [C], [])
    assert index.match("m", [A]) == {}
    # Its clock was set back: a smaller epoch is another life too.
    index.change("w1", 1, "m", [A], [])
    assert index.match("m", [A]) == {"w1": 1}
    assert index.match("m", [C]) == {}
    index.forget("w1")
    assert len(index) == 0


def test_a_block_that_is_forgotten_for_its_age_is_forgotten_everywhere() -> None:
    index = PrefixIndex(2)
    for worker in ("w1", "w2"):
        index.change(worker, 1, "m", [A, B], [])
    index.change("w1", 1, "m", [C], [])
    assert index.match("m", [A]) == {}
    assert index.match("m", [B]) == {"w1": 1, "w2": 1}
    index.forget("w1")
    assert index.match("m", [B]) == {"w2": 1}
    assert len(index) == 1


def test_bounded() -> None:
    index = PrefixIndex(10)
    index.change("w1", 1, "m", [number.to_bytes(16, "big") for number in range(50)], [])
    assert len(index) == 10
