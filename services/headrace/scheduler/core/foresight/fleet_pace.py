"""Pace at which all workers of a model together get through work."""

from dataclasses import dataclass

from headrace.domain.step_times import StepTimes
from headrace.scheduler.core.fleet.first_token import NOMINAL_STEP_TOKENS
from headrace.scheduler.core.fleet.fleet import Fleet
from headrace.scheduler.core.fleet.worker import Worker
from headrace.scheduler.core.queueing.work import Work


@dataclass(frozen=True, slots=True)
class FleetPace:
    """Seconds of the whole fleet for each token, where every worker runs as many requests as it can."""

    prompt_token_seconds: float
    output_token_seconds: float
    best_times: StepTimes
    """Step times of the worker that gives a first token soonest when it has nothing else to do."""
    best_step_tokens: int
    idle_step_seconds: float
    """Shortest step of any worker with one sequence."""
    full_step_seconds: float
    """Shortest step of any worker that runs as many as it can."""

    def seconds(self, work: Work) -> float:
        """Predicts the seconds in which the workers get through some work, beside what they hold."""
        return work.prompt_tokens * self.prompt_token_seconds + work.output_tokens * self.output_token_seconds

    def least_first_token_seconds(self, prompt_tokens: float) -> float:
        """Predicts the seconds to a first token on the best worker, if it had nothing else to do."""
        return _alone(self.best_times, self.best_step_tokens, prompt_tokens)

    def least_rest_seconds(self, output_tokens: float, is_full: bool) -> float:
        """Predicts the seconds from the first to the last of so many tokens, on the fastest worker. `is_full`: whether
        all workers run as many requests as they can."""
        return max(0.0, output_tokens - 1) * (self.full_step_seconds if is_full else self.idle_step_seconds)


def measure_pace(fleet: Fleet, usual: Work, now: float) -> FleetPace | None:
    """Adds up the workers that serve a model. `usual`: work of a usual request. None: there is none. Costs O(workers).

    A request costs a worker the share of its steps that it takes part in. Each worker gets as many requests as it gets
    through, so that a slow one counts for little."""
    serving = [
        worker
        for worker in fleet.workers.values()
        if worker.takes_any and not worker.report.is_prefill and fleet.hears(worker, now) and not worker.is_stalled(now)
    ]
    if not serving:
        return None
    costs = [_token_seconds(worker, usual) for worker in serving]
    rates = [1 / max(1e-9, prompt * usual.prompt_tokens + output * usual.output_tokens) for prompt, output in costs]
    whole = sum(rates) * len(rates)
    best = min(serving, key=lambda worker: _alone(_times(worker), _step_tokens(worker), usual.prompt_tokens))
    return FleetPace(
        sum(rate * prompt for rate, (prompt, _) in zip(rates, costs, strict=True)) / whole,
        sum(rate * output for rate, (_, output) in zip(rates, costs, strict=True)) / whole,
        _times(best),
        _step_tokens(best),
        min(_times(worker).seconds(0, 1, 0) for worker in serving),
        min(_full_step_seconds(worker, usual) for worker in serving),
    )


def _token_seconds(worker: Worker, usual: Work) -> tuple[float, float]:
    """Returns the seconds of a full worker for each token of a prompt, and for each token of an output."""
    times = _times(worker)
    running, context = _most_running(worker, usual), _usual_context(usual)
    prompt = times.prompt_token_seconds
    output = times.sequence_seconds + context * times.context_token_seconds
    if usual.output_tokens / running >= usual.prompt_tokens / _step_tokens(worker):
        return prompt, output + times.base_seconds / running
    return prompt + times.base_seconds / _step_tokens(worker), output


def _full_step_seconds(worker: Worker, usual: Work) -> float:
    running = _most_running(worker, usual)
    return _times(worker).seconds(0, running, running * _usual_context(usual))


def _most_running(worker: Worker, usual: Work) -> float:
    """Returns how many usual requests a worker runs at once: as many as it accepts, and as its KV cache holds."""
    report, running = worker.report, float(max(1, worker.slot_count))
    if not (report.block_count and report.block_size):
        return running
    tokens = usual.prompt_tokens + usual.output_tokens
    return max(1.0, min(running, report.block_count * report.block_size / max(1.0, tokens)))


def _usual_context(usual: Work) -> float:
    return usual.prompt_tokens + usual.output_tokens / 2


def _alone(times: StepTimes, step_tokens: int, prompt_tokens: float) -> float:
    steps = max(1, -(-int(prompt_tokens) // step_tokens))
    return steps * times.base_seconds + prompt_tokens * times.prompt_token_seconds + times.sequence_seconds


def _times(worker: Worker) -> StepTimes:
    return worker.report.step_times or StepTimes(worker.step_seconds, 1 / worker.prefill_rate)


def _step_tokens(worker: Worker) -> int:
    return worker.report.step_token_limit or NOMINAL_STEP_TOKENS
