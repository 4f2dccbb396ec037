"""Prefixes of endpoints are bounded, and forgotten from their ends."""

from headrace.scheduler.picker.choosing.prefix_holders import PrefixHolders


def test_the_leading_pieces_are_counted() -> None:
    holders = PrefixHolders(100)
    holders.note("a", [1, 2, 3])
    holders.note("b", [1, 2])
    assert holders.held([1, 2, 3, 4]) == {"a": 3, "b": 2}
    assert holders.held([2, 3]) == {"a": 2, "b": 1}
    assert holders.held([5, 1]) == {}
    assert holders.held([]) == {}


def test_the_newest_are_kept_and_their_first_pieces_longest() -> None:
    holders = PrefixHolders(3)
    holders.note("a", [1, 2])
    holders.note("a", [3, 4])
    assert holders.held([1, 2]) == {"a": 1}
    assert holders.held([3, 4]) == {"a": 2}
    holders.note("a", list(range(10, 20)))
    assert holders.held(range(10, 20)) == {"a": 3}
    assert len(holders) == 3


def test_an_endpoint_that_left_holds_nothing() -> None:
    holders = PrefixHolders(3)
    holders.note("a", [1, 2])
    holders.note("b", [1])
    holders.forget("a")
    assert holders.held([1, 2]) == {"b": 1}
    holders.forget("b")
    holders.forget("c")
    assert len(holders) == 0


def test_nothing_is_kept_where_nothing_may_be() -> None:
    holders = PrefixHolders(0)
    holders.note("a", [1])
    assert holders.held([1]) == {}
