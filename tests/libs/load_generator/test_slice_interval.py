"""Intervals are wide where lateness comes in runs."""

import random

import pytest

from headrace.load_generator.slice_interval import SLICE_COUNT, slice_interval


def test_runs_of_late_requests_make_the_interval_wider_than_chance_does() -> None:
    chance = random.Random(1)
    alone = [chance.random() < 0.9 for _ in range(2000)]
    in_runs = [number % 1000 >= 100 for number in range(2000)]
    spread = slice_interval(alone)
    run = slice_interval(in_runs)
    assert spread is not None
    assert run is not None
    assert spread == pytest.approx((0.9, 0.9), abs=0.03)
    assert run[1] - run[0] > 3 * (spread[1] - spread[0])


def test_it_holds_the_real_share_about_as_often_as_it_says() -> None:
    held = 0
    for seed in range(200):
        chance = random.Random(seed)
        low, high = slice_interval([chance.random() < 0.8 for _ in range(1000)]) or (0.0, 0.0)
        held += low <= 0.8 <= high
    assert held / 200 == pytest.approx(0.95, abs=0.05)


def test_few_requests_have_none() -> None:
    assert slice_interval([True] * (SLICE_COUNT - 1)) is None
    assert slice_interval([True] * SLICE_COUNT) == (1.0, 1.0)
