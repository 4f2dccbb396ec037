"""Predicts how long a worker takes to the first token of a prompt."""

from headrace.domain.step_times import StepTimes
from headrace.scheduler.core.fleet.worker import Worker, WorkerReport

NOMINAL_STEP_TOKENS = 512
"""Tokens of a step assumed of a worker that does not name its limit."""
MIN_ROOM = 16
"""Tokens of prompts assumed to fit a step, however many sequences share it."""


def first_token_seconds(worker: Worker, missing_token_count: int, now: float) -> float:
    """Returns the seconds until a worker gives the first token of a prompt of which it has to compute so many tokens.

    Counts the rest of the step that runs, and the steps that all prompts before this one and it itself fill, each with
    the sequences that get tokens beside them. Prompts that come later and share its last step are not foreseen."""
    report, times = worker.report, worker.step_times
    room = _room(report, times)
    reading = min(report.waiting_token_count, room)
    waiting = report.waiting_token_count - reading + worker.coming_token_count + missing_token_count
    running = _rest_of_step(worker, times, reading, now)
    full_steps, rest = divmod(waiting, room)
    step = _step_seconds(worker, times, 0)
    return report.wait_seconds + running + (full_steps + (rest > 0)) * step + waiting * times.prompt_token_seconds


def _room(report: WorkerReport, times: StepTimes) -> int:
    """Returns the tokens of prompts that fit a step beside the sequences that run."""
    room = (report.step_token_limit or NOMINAL_STEP_TOKENS) - report.running_count
    if report.max_step_seconds and report.running_count:
        context = report.used_block_count * report.block_size
        room = int(min(room, times.prompt_tokens_within(report.max_step_seconds, report.running_count, context)))
    return max(MIN_ROOM, room)


def _rest_of_step(worker: Worker, times: StepTimes, reading: int, now: float) -> float:
    """Returns the seconds that are left of the step that runs."""
    if not (reading or worker.report.running_count):
        return 0.0
    return max(0.0, _step_seconds(worker, times, reading) - (now - worker.last_progress))


def _step_seconds(worker: Worker, times: StepTimes, prompt_token_count: int) -> float:
    report = worker.report
    context = report.used_block_count * report.block_size
    return times.seconds(prompt_token_count, report.running_count, context)
