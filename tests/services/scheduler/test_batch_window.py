"""The window is zero when waiting brings nobody, and never above its limit."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.scheduler.batch_window import BatchWindow


def window_after(gaps: list[float], target: int = 8) -> BatchWindow:
    window = BatchWindow(0.05, target)
    now = 0.0
    window.observe_arrival(now)
    for gap in gaps:
        now += gap
        window.observe_arrival(now)
    return window


def test_an_idle_worker_is_never_kept_waiting() -> None:
    assert window_after([0.001] * 20).seconds(1, worker_idle=True) == 0


def test_slow_arrivals_are_not_waited_for() -> None:
    assert window_after([1.0] * 5).seconds(1, worker_idle=False) == 0
    assert BatchWindow(0.05, 8).seconds(1, worker_idle=False) == 0


def test_fast_arrivals_are_waited_for_until_the_batch_is_full() -> None:
    window = window_after([0.002] * 20)
    assert 0.01 < window.seconds(1, worker_idle=False) <= 0.05
    assert window.seconds(7, worker_idle=False) < window.seconds(2, worker_idle=False)
    assert window.seconds(8, worker_idle=False) == 0


@given(st.lists(st.floats(0, 10), max_size=30), st.integers(0, 100))
def test_limits(gaps: list[float], waiting: int) -> None:
    assert 0 <= window_after(gaps).seconds(waiting, worker_idle=False) <= 0.05
