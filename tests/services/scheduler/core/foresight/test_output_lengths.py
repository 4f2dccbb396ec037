"""Lengths of outputs follow tenant, size of what is asked for, and time, in bounded memory."""

import random

import pytest

from headrace.scheduler.core.foresight import output_lengths as module
from headrace.scheduler.core.foresight.output_lengths import ASSUMED_TOKENS, OutputLengths


def test_before_any_output_ended_a_usual_length_is_assumed_and_never_more_than_asked_for() -> None:
    lengths = OutputLengths()
    assert lengths.expected("t", 1000).mean == ASSUMED_TOKENS
    assert (lengths.expected("t", 10).mean, lengths.expected("t", 10).high) == (10, 10)
    assert lengths.expected("t", 0).mean == 0, "a vector has no output"


def test_tenants_and_sizes_are_told_apart() -> None:
    lengths = OutputLengths()
    for number in range(200):
        lengths.note("brief", 1000, 10 + number % 3)
        lengths.note("long", 1000, 500 + number % 3)
        lengths.note("long", 8000, 4000 + number % 3)
    assert lengths.expected("brief", 1000).mean == pytest.approx(11, abs=60)
    assert lengths.expected("long", 1000).mean == pytest.approx(500, rel=0.1)
    assert lengths.expected("long", 8000).mean == pytest.approx(4000, rel=0.1)
    stranger = lengths.expected("stranger", 1000)
    assert 200 < stranger.mean < 300, "what all who ask for as much get"
    assert (stranger.low, stranger.high) == (10, 502)


def test_the_interval_holds_four_of_five_outputs() -> None:
    lengths, chance, inside = OutputLengths(), random.Random(1), 0
    for number in range(2000):
        expected, length = lengths.expected("t", 4096), 1 + int(chance.expovariate(1 / 200))
        inside += number >= 100 and expected.low <= length <= expected.high
        lengths.note("t", 4096, length)
    assert inside / 1900 == pytest.approx(0.8, abs=0.05)


def test_what_changed_is_followed() -> None:
    lengths = OutputLengths()
    for length in [100] * 500 + [900] * module.WINDOW:
        lengths.note("t", 1000, length)
    assert lengths.expected("t", 1000).mean > 800
    assert lengths.expected("t", 1000).low == 900


def test_what_failed_says_nothing() -> None:
    lengths = OutputLengths()
    lengths.note("t", 1000, 0)
    assert lengths.mean == ASSUMED_TOKENS


def test_tenants_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WINDOWS", 10)
    lengths = OutputLengths()
    for number in range(100):
        for _ in range(20):
            lengths.note(f"t{number}", 1000, 900 if number == 0 else 100)
    assert lengths.expected("t0", 1000).mean == lengths.expected("never seen", 1000).mean
