"""Notices a frozen process: one that lives but was stopped, or waits for something that never comes."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from headrace.supervisor.process_activity import ProcessActivity

ANSWER_INTERVAL = 1.0
"""Seconds between an answer and the next question: half of what a frozen process is allowed, the other half of which
the next answer may take. Questions are most of what an idle platform does."""
AGAIN_SECONDS = 0.1
"""Seconds after which one without an answer is asked again."""
QUESTION_SECONDS = 1.0
"""Seconds that an answer may take; enforced by the asking side."""
MAX_ROUND = QUESTION_SECONDS + ANSWER_INTERVAL + 0.2
"""Seconds of a question and its pause beyond which its outcome is ignored: this process, too, was kept from running."""


@dataclass(frozen=True, slots=True)
class AnswerPatience:
    """Time for which a process that was ready may leave probes unanswered."""

    frozen_seconds: float = 2.0
    """Seconds allowed to a process that does not compute either."""
    busy_seconds: float = 10.0
    """Seconds allowed to a process that computes, or would if the machine let it."""


async def until_frozen(answers: Callable[[], Awaitable[bool]], pid: int, patience: AnswerPatience) -> float:
    """Asks until the process was silent for too long, and returns the seconds of silence.

    Time for which this process was itself kept from asking does not count."""
    activity = ProcessActivity(pid)
    answered = time.monotonic()
    while True:
        before = time.monotonic()
        if has_answered := await answers():
            answered = time.monotonic()
            activity.begin()
        await asyncio.sleep(ANSWER_INTERVAL if has_answered else AGAIN_SECONDS)
        now = time.monotonic()
        if now - before > MAX_ROUND:
            answered = min(now, answered + now - before)
        silent_seconds = now - answered
        if has_answered or silent_seconds < patience.frozen_seconds:
            continue
        if silent_seconds >= patience.busy_seconds or not activity.is_busy(silent_seconds):
            return silent_seconds
