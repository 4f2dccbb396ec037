"""Stages of a stopwatch leave no gap."""

import pytest

from headrace.gateway.timing.stopwatch import DECODE, PARSE, RECEIVE, Stopwatch


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Times that the stopwatch reads, one after the other."""
    times: list[float] = []
    monkeypatch.setattr("headrace.gateway.timing.stopwatch.time.monotonic", lambda: times.pop(0))
    return times


def test_laps_add_up_to_the_whole(clock: list[float]) -> None:
    clock += [10.0, 10.5, 12.0, 15.0]
    watch = Stopwatch()
    watch.lap(RECEIVE)
    watch.lap(PARSE)
    assert watch.lap(RECEIVE) == 15.0
    assert watch.seconds == {RECEIVE: 3.5, PARSE: 1.5}
    assert watch.elapsed == sum(watch.seconds.values()) == 5.0


def test_a_start_may_lie_in_the_past(clock: list[float]) -> None:
    clock += [10.0]
    watch = Stopwatch(8.0)
    watch.lap(RECEIVE)
    assert watch.seconds == {RECEIVE: 2.0}


def test_a_stage_moves_to_another(clock: list[float]) -> None:
    clock += [0.0, 1.0, 3.0]
    watch = Stopwatch()
    watch.lap(DECODE)
    watch.lap(PARSE)
    watch.move(DECODE, PARSE)
    watch.move(RECEIVE, PARSE)
    assert watch.seconds == {PARSE: 3.0}
