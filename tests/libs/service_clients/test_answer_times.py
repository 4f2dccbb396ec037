"""An answer is late after ten times the usual time, within bounds."""

import pytest

from headrace.service_clients.answer_times import MAX_PATIENCE, MIN_PATIENCE, AnswerTimes


@pytest.mark.parametrize(("usual", "late"), [(0.001, MIN_PATIENCE), (0.05, 0.5), (3.0, MAX_PATIENCE)])
def test_patience_follows_the_usual_time(usual: float, late: float) -> None:
    times = AnswerTimes()
    assert times.patience == MAX_PATIENCE
    for _ in range(3):
        times.note(usual)
    assert times.patience == pytest.approx(late)


def test_a_slow_answer_changes_little_and_many_do() -> None:
    times = AnswerTimes()
    times.note(0.04)
    times.note(0.5)
    assert times.patience < MAX_PATIENCE
    for _ in range(30):
        times.note(0.5)
    assert times.patience == MAX_PATIENCE
