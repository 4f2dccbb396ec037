"""Flows are those of the last half minute, with a trend upwards where it is certain."""

import random

import pytest

from headrace.scheduler.core.demand.arrivals import Arrivals


def test_nothing_came() -> None:
    assert Arrivals().expected(100.0, 30.0).token_rate == 0.0


def test_the_flow_is_that_of_the_last_half_minute() -> None:
    arrivals = Arrivals()
    for second in range(200):
        arrivals.note(10 if second < 160 else 50, second + 0.5)
    flow = arrivals.expected(200.0, 0.0)
    assert (flow.request_rate, flow.mean_tokens, flow.mean_square) == (1.0, 50.0, 2500.0)


def test_a_steady_rise_is_expected_to_go_on() -> None:
    arrivals, chance, now = Arrivals(), random.Random(1), 0.0
    while now < 300.0:
        now += chance.expovariate(1.0 + now / 30)
        arrivals.note(100, now)
    here, ahead = arrivals.expected(300.0, 0.0), arrivals.expected(300.0, 60.0)
    assert here.request_rate == pytest.approx(10.5, rel=0.15)
    assert here.request_rate + 1.0 < ahead.request_rate < here.request_rate + 2.2


@pytest.mark.parametrize("seed", range(5))
def test_chance_is_no_trend_and_neither_is_a_fall(seed: int) -> None:
    flat, falling, chance, now = Arrivals(), Arrivals(), random.Random(seed), 0.0
    while now < 300.0:
        now += chance.expovariate(4.0)
        flat.note(100, now)
        if chance.random() > now / 300:
            falling.note(100, now)
    for arrivals in (flat, falling):
        assert arrivals.expected(300.0, 60.0).request_rate <= 1.25 * arrivals.expected(300.0, 0.0).request_rate


def test_an_hour_of_silence_is_over_at_once() -> None:
    arrivals = Arrivals()
    for second in range(60):
        arrivals.note(10, float(second))
    assert arrivals.expected(3600.0, 30.0).request_rate == 0.0
    assert arrivals.last == 59.0
