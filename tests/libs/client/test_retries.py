"""Retries obey the platform, and the deadline."""

import asyncio
import time
from itertools import pairwise

import pytest

from headrace.client.retries import SHOULD_RETRY, Retries, pause_after
from headrace.domain.deadline import Deadline
from headrace.errors import HeadraceError, InternalError, InvalidRequest, Overloaded, RateLimited, Unavailable


@pytest.mark.parametrize(
    ("error", "shortest", "longest"),
    [
        (Overloaded(retry_after=3.0), 3.0, 3.0),
        (RateLimited(retry_after=0.25), 0.25, 0.25),
        (Unavailable(), 0.375, 0.5),
        (InternalError(details={SHOULD_RETRY: "true"}), 0.375, 0.5),
    ],
)
def test_errors_that_may_pass_are_retried(error: HeadraceError, shortest: float, longest: float) -> None:
    pause = pause_after(error, 0)
    assert pause is not None
    assert shortest <= pause <= longest


@pytest.mark.parametrize(
    "error",
    [
        InvalidRequest(),
        RateLimited(),
        InternalError(),
        Unavailable(details={SHOULD_RETRY: "false"}),
        Overloaded(retry_after=1.0, details={SHOULD_RETRY: "false"}),
    ],
)
def test_errors_that_stay_are_not(error: HeadraceError) -> None:
    assert pause_after(error, 0) is None


def test_pauses_grow_to_a_bound() -> None:
    pauses = [pause_after(Unavailable(), number) or 0.0 for number in range(10)]
    assert all(0.375 * 2**number <= pause <= 0.5 * 2**number for number, pause in enumerate(pauses[:4]))
    assert max(pauses) <= 8.0


def failing(times: int, calls: list[float], retry_after: float) -> object:
    async def attempt() -> str:
        calls.append(time.monotonic())
        if len(calls) <= times:
            raise Overloaded(f"attempt {len(calls)}", retry_after=retry_after)
        return "done"

    return attempt


def test_the_attempt_that_succeeds_counts() -> None:
    calls: list[float] = []
    run = Retries(2).run(failing(2, calls, 0.05), Deadline.after(10))  # type: ignore[arg-type, var-annotated]
    assert asyncio.run(run) == "done"
    assert [later - earlier >= 0.05 for earlier, later in pairwise(calls)] == [True, True]


def test_the_last_error_is_raised() -> None:
    calls: list[float] = []
    with pytest.raises(Overloaded, match="attempt 3"):
        asyncio.run(Retries(2).run(failing(9, calls, 0.01), Deadline.after(10)))  # type: ignore[arg-type]
    assert len(calls) == 3


def test_a_pause_beyond_the_deadline_is_not_waited_for() -> None:
    calls: list[float] = []
    started = time.monotonic()
    with pytest.raises(Overloaded, match="attempt 1"):
        asyncio.run(Retries(2).run(failing(9, calls, 60.0), Deadline.after(5)))  # type: ignore[arg-type]
    assert time.monotonic() - started < 1
