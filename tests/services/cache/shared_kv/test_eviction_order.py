"""Records that save the most time for their bytes stay."""

import random

from headrace.cache.shared_kv.eviction_order import EvictionOrder


def name(number: int) -> bytes:
    return number.to_bytes(4, "big")


def test_what_is_used_first_goes_first_among_equals() -> None:
    order = EvictionOrder()
    for number in range(4):
        order.add(name(number), 10, 1.0)
    assert list(order.take(15)) == [name(0), name(1)]
    assert (len(order), order.used_bytes) == (2, 20)


def test_uses_time_and_bytes_decide() -> None:
    order = EvictionOrder()
    order.add(b"used", 10, 1.0)
    order.add(b"dear", 10, 3.0)
    order.add(b"large", 40, 3.0)
    order.add(b"usual", 10, 1.0)
    order.use(b"used")
    assert [key for _ in range(4) for key in order.take(1)] == [b"large", b"usual", b"used", b"dear"]


def test_old_uses_count_less_and_less() -> None:
    order = EvictionOrder()
    order.add(b"old", 10, 1.0)
    for _ in range(5):
        order.use(b"old")
    rounds = 0
    while b"old" in order:
        rounds += 1
        order.add(name(rounds), 10, 1.0)
        order.take(1)
    assert 5 <= rounds <= 20


def test_a_scan_does_not_empty_it() -> None:
    order = EvictionOrder()
    for number in range(10):
        order.add(name(number), 10, 0.0)
        order.use(name(number))
    for number in range(100, 120):
        order.add(name(number), 10, 0.0)
    order.take(200)
    assert all(name(number) in order for number in range(10))


def test_what_is_restored_is_where_it_was() -> None:
    order = EvictionOrder()
    for number in range(4):
        order.add(name(number), 10, 1.0)
    taken = order.take(20)
    order.restore(taken.items())
    assert order.used_bytes == 40
    assert order.take(20).keys() == taken.keys()


def test_bytes_are_those_of_what_is_held_whatever_happens() -> None:
    order, dice, sizes = EvictionOrder(), random.Random(3), dict[bytes, int]()
    for _ in range(20_000):
        key = name(dice.randrange(50))
        match dice.randrange(3):
            case 0:
                sizes[key] = dice.randrange(1, 100)
                order.add(key, sizes[key], dice.random())
            case 1 if key in order:
                order.use(key)
            case 2 if dice.random() < 0.2:
                for gone in order.take(dice.randrange(100)):
                    del sizes[gone]
    assert (len(order), order.used_bytes) == (len(sizes), sum(sizes.values()))
    assert all(order.size_of(key) == size for key, size in sizes.items())
    assert order.take(10**9).keys() == sizes.keys()
    assert (len(order), order.used_bytes) == (0, 0)
