"""The number of guesses follows what they gained."""

import random

import pytest

from headrace.engine.speculation.draft_cost import FADING, FEW, FIRST_FADING, OUTLIER, DraftCost
from headrace.engine.speculation.draft_length import FIRST_PAUSE, PROBE_LENGTH, DraftLength
from headrace.engine.speculation.ngram_index import NgramIndex
from headrace.engine.speculation.step_cost import StepCost

CHEAP = (1.0, 0.05)
"""Costs of a step, and of each guess in it."""


def test_good_guesses_become_longer() -> None:
    length = DraftLength(acceptance=0.5)
    first, _ = length.choose(10, 8, *CHEAP)
    for _ in range(20):
        length.observe(4, 4)
    longest, gain = length.choose(10, 8, *CHEAP)
    assert longest == 8 > first > 0
    assert gain > 4


def test_guesses_that_cost_what_they_gain_are_not_made() -> None:
    length = DraftLength(acceptance=0.5)
    assert length.choose(10, 8, 1.0, 0.6) == (0, 1.0)


def test_a_pause_follows_bad_guesses_then_a_short_probe_then_a_longer_pause() -> None:
    length = DraftLength(acceptance=0.5)
    for _ in range(20):
        length.observe(2, 0)
    assert length.choose(100, 8, *CHEAP)[0] == 0
    assert length.choose(100 + FIRST_PAUSE - 1, 8, *CHEAP)[0] == 0
    assert length.choose(100 + FIRST_PAUSE, 8, *CHEAP)[0] == PROBE_LENGTH
    for _ in range(20):
        length.observe(2, 0)
    assert length.choose(200, 8, *CHEAP)[0] == 0
    assert length.choose(200 + 2 * FIRST_PAUSE - 1, 8, *CHEAP)[0] == 0
    assert length.choose(200 + 2 * FIRST_PAUSE, 8, *CHEAP)[0] == PROBE_LENGTH


def test_nothing_to_guess_from_is_no_reason_to_pause() -> None:
    length = DraftLength(acceptance=0.5)
    assert length.choose(10, 0, *CHEAP)[0] == 0
    assert length.choose(11, 8, *CHEAP)[0] > 0


def test_a_source_whose_pauses_cost_something_gives_up() -> None:
    length = DraftLength(acceptance=0.5, patience=2)
    tries = []
    for token_count in range(1000):
        if length.choose(token_count, 8, *CHEAP)[0]:
            tries.append(token_count)
            for _ in range(20):
                length.observe(2, 0)
    assert tries == [0, FIRST_PAUSE + 1, 3 * FIRST_PAUSE + 2]


def test_such_a_source_is_not_tried_again_while_it_cannot_pay() -> None:
    length = DraftLength(acceptance=0.5, patience=9)
    assert length.choose(0, 8, 1.0, 0.6)[0] == 0
    assert length.choose(FIRST_PAUSE, 8, 1.0, 0.6)[0] == 0
    assert length.paused_until == 3 * FIRST_PAUSE
    assert length.choose(3 * FIRST_PAUSE, 8, *CHEAP)[0] == PROBE_LENGTH


def test_what_is_spent_on_each_token_counts() -> None:
    assert DraftLength(acceptance=0.5).choose(10, 8, *CHEAP, token_cost=0.1)[0] > 0
    assert DraftLength(acceptance=0.5).choose(10, 8, *CHEAP, token_cost=0.5)[0] == 0


def test_step_cost_is_a_line_through_the_measurements() -> None:
    cost = StepCost()
    for token_count in (1, 5, 1, 3, 1, 5, 2):
        cost.observe(token_count, 0.010 + 0.002 * token_count)
    assert cost(1) == pytest.approx(0.012, rel=1e-6)
    assert cost(9) == pytest.approx(0.028, rel=1e-6)


def test_step_cost_with_one_size_seen_assumes_a_slope() -> None:
    cost = StepCost()
    for _ in range(5):
        cost.observe(1, 0.02)
    assert cost(1) == pytest.approx(0.02)
    assert 0.02 < cost(4) < 0.04


def test_one_slow_step_does_not_count_for_much() -> None:
    cost = StepCost()
    for _ in range(40):
        cost.observe(1, 0.01)
        cost.observe(4, 0.01)
    cost.observe(1, 10.0)
    assert cost(1) < 0.02


def test_the_index_repeats_what_followed_last_time() -> None:
    index = NgramIndex()
    text = [1, 2, 3, 4, 5, 1, 2, 3]
    assert index.find(text, 3) == (4, 5, 1)
    assert index.find(text, 1) == (4,)
    assert index.find([*text, 9], 8) == ()
    assert index.find([*text, 9, 1, 2, 3], 2) == (9, 1)


def test_the_index_may_be_asked_now_and_then() -> None:
    """The tokens in between are taken in; what is found is what a search through the text finds."""
    rng = random.Random(1)
    index, text = NgramIndex(), [0]
    for _ in range(300):
        text += [rng.randint(0, 2) for _ in range(rng.randint(1, 5))]
        starts = [end for end in range(3, len(text)) if text[end - 3 : end] == text[-3:] and len(text) > 2]
        expected = tuple(text[starts[-1] : starts[-1] + 4]) if starts else ()
        assert index.repeats(text) == bool(expected)
        assert index.find(text, 4) == expected


def test_draft_cost_follows_the_measurements_but_for_the_first() -> None:
    cost = DraftCost()
    cost.observe_drafts(1, 5.0, constrained=False)
    assert cost.per_draft_token(constrained=False) == 5.0
    cost.observe_drafts(4, 0.4, constrained=False)
    assert cost.per_draft_token(constrained=False) == pytest.approx(0.1)
    cost.observe_drafts(1, 1000.0, constrained=False)
    assert cost.per_draft_token(constrained=False) <= OUTLIER * 0.1
    assert cost.per_draft_token(constrained=True) == 0.0
    cost.observe_reading(100, 1.0)
    assert cost.per_read == 0.01


def test_draft_cost_fades_while_it_is_not_measured() -> None:
    cost = DraftCost()
    cost.observe_drafts(1, 1.0, constrained=True)
    for _ in range(FEW):
        cost.observe_drafts(1, 1.0, constrained=False)
    cost.fade(constrained=True)
    cost.fade(constrained=False)
    assert cost.per_draft_token(constrained=True) == FIRST_FADING
    assert cost.per_draft_token(constrained=False) == FADING


@pytest.mark.parametrize(("measured", "expected"), [(1.0, 1.0), (0.9, 0.9), (0.1, 0.7)])
def test_what_has_faded_comes_back_as_far_as_it_is_still_true(measured: float, expected: float) -> None:
    cost = DraftCost()
    for _ in range(100):
        cost.observe_drafts(1, 1.0, constrained=False)
    while cost.per_draft_token(constrained=False) > 0.7:
        cost.fade(constrained=False)
    cost.observe_drafts(1, measured, constrained=False)
    assert cost.per_draft_token(constrained=False) == pytest.approx(expected, rel=0.15)
