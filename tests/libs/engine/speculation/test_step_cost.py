"""The cost of a step begins with what was measured at load, and follows the machine."""

import pytest

from headrace.engine.speculation.step_cost import FEW, LIFETIME, MEMORY, PRIOR_SLOPE, SHIFT_COUNT, WINDOW, StepCost

TABLE = {1: 10.0, 2: 11.0, 4: 14.0, 8: 22.0}


def test_it_begins_with_the_table() -> None:
    cost = StepCost(TABLE)
    assert cost.is_known
    assert [cost(rows) for rows in (1, 2, 3, 4, 8)] == [10, 11, 12.5, 14, 22]
    assert cost(16) == 22 + 8 * 2
    assert not cost.is_stale(1)


def test_without_a_table_it_rises_slowly_until_there_are_steps() -> None:
    cost = StepCost()
    assert not cost.is_known
    assert 1 == cost(1) < cost(4) < 2
    cost.observe(1, 0.02)
    assert cost.is_known
    assert cost(1) == pytest.approx(0.02)
    assert 0.02 < cost(4) < 0.04


def test_steps_correct_their_size_and_those_that_were_not_seen() -> None:
    cost = StepCost(TABLE)
    for _ in range(WINDOW):
        cost.observe(1, 11.0)
        cost.observe(8, 20.0)
    assert cost(1) == pytest.approx(11)
    assert cost(2) == pytest.approx(12.1)
    assert cost(8) == pytest.approx(20)


def test_a_slow_step_now_and_then_does_not_count() -> None:
    cost = StepCost(TABLE)
    for seconds in (10, 10, 50, 10, 40, 10, 10):
        cost.observe(1, seconds)
    assert cost(1) == 10


def test_what_was_measured_too_high_is_lowered() -> None:
    """More rows never take less time, nor more time for each."""
    assert StepCost({1: 10.0, 2: 90.0, 4: 14.0})(2) == 14
    assert StepCost({1: 10.0, 2: 11.0, 4: 90.0})(4) == 22


def test_a_change_is_taken_to_concern_all_sizes_until_they_are_measured() -> None:
    cost = StepCost(TABLE)
    for _ in range(WINDOW):
        cost.observe(1, 10.0)
        cost.observe(4, 14.0)
    for _ in range(SHIFT_COUNT):
        cost.observe(4, 42.0)
    assert cost(4) == pytest.approx(42)
    assert cost(1) == pytest.approx(30)
    assert cost.is_stale(1)
    for _ in range(FEW):
        assert cost.is_stale(1)
        cost.observe(1, 10.0)
    assert not cost.is_stale(1)
    assert cost(1) == pytest.approx(10)
    assert cost(4) == pytest.approx(42)


def test_a_size_that_was_not_measured_for_long_is_stale_and_a_slow_spell_is_forgotten() -> None:
    cost = StepCost(TABLE)
    for _ in range(WINDOW):
        cost.observe(1, 10.0)
    for _ in range(3):
        cost.observe(8, 40.0)
    assert cost(8) == pytest.approx(40)
    for _ in range(LIFETIME + 1):
        cost.observe(1, 10.0)
    assert cost.is_stale(8)
    for _ in range(MEMORY):
        cost.observe(1, 10.0)
    assert cost(8) < 22


def test_a_load_that_was_disturbed_does_not_last() -> None:
    """Steps that seem too dear to be taken are worth a try after a while, and then known."""
    cost = StepCost({1: 10.0, 2: 20.0, 4: 40.0})
    for _ in range(MEMORY + 1):
        assert cost(2) == 20
        cost.observe(1, 10.0)
    assert cost(2) == pytest.approx(10 * (1 + PRIOR_SLOPE))
    cost.observe(2, 11.0)
    assert cost(2) == pytest.approx(11)
    cost.observe(4, 36.0)
    assert cost(4) == pytest.approx(36)
