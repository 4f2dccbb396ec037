"""Figures of a simulation that has ended: latencies, goodput, and the use of workers."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from headrace.load_generator.percentile import percentile
from headrace.load_generator.slice_interval import slice_interval
from headrace.scheduler.core.fleet.predictions import FirstToken
from headrace.scheduler.simulation.outcome import Ending, Outcome
from headrace.scheduler.simulation.scaled_pool import ScaledPool
from headrace.scheduler.simulation.scenario import Scenario
from headrace.scheduler.simulation.traffic import Traffic

PERCENTILES = (50, 95, 99)


def figures(scenario: Scenario, traffic: Traffic, pool: ScaledPool) -> dict[str, Any]:
    """Returns what JSON shows of a simulation: times in milliseconds of virtual time, rates per virtual second.

    Latencies are those of requests that finished. Goodput counts finished requests within both service levels, and its
    share is of all requests. All rates are over the time from the first arrival to the last end.
    """
    platform = pool.platform
    workers = [*platform.retired, *platform.workers.values()]
    outcomes = list(platform.outcomes.values())
    finished = [outcome for outcome in outcomes if outcome.ending is Ending.FINISHED]
    good_count = sum(_is_good(outcome, scenario) for outcome in finished)
    seconds = max((outcome.ended_at for outcome in outcomes), default=0.0)
    output_count = sum(outcome.token_count for outcome in outcomes)
    prompt_count = sum(outcome.ticket.prompt_token_count for outcome in finished)
    return {
        "policy": scenario.policy,
        "workers": scenario.worker_count,
        "requests": len(outcomes),
        "finished": len(finished),
        **_endings(outcomes),
        "skipped_rows": traffic.skipped_count,
        "seconds": round(seconds, 3),
        "ttft_ms": _percentiles(outcome.ttft for outcome in finished),
        "itl_ms": _percentiles(platform.itls),
        "tpot_ms": _percentiles(outcome.tpot for outcome in finished if outcome.token_count > 1),
        "e2e_ms": _percentiles(outcome.ended_at - outcome.asked_at for outcome in finished),
        "queue_ms": _percentiles(
            outcome.placed_at - outcome.ticket.arrival for outcome in outcomes if outcome.placed_at is not None
        ),
        "goodput_requests_per_second": _per(good_count, seconds),
        "goodput_share": _per(good_count, len(outcomes)),
        "goodput_interval": _interval(outcomes, scenario),
        "output_tokens_per_second": _per(output_count, seconds),
        "utilization": _per(sum(worker.busy_seconds for worker in workers), pool.worker_seconds()),
        "worker_hours": round(pool.worker_seconds() / 3600, 4),
        "most_workers": pool.most_count,
        **_costs(scenario.hourly_price * pool.worker_seconds() / 3600, prompt_count + output_count, output_count),
        "prediction_error": _errors(platform.first_tokens),
        "cached_prompt_share": _per(sum(outcome.cached_token_count for outcome in finished), prompt_count),
        "preemptions": sum(worker.stats.preemption_count for worker in workers),
        "max_queue_depth": platform.max_waiting_count,
        "output_tokens": output_count,
        "steps": sum(worker.stats.step_count for worker in workers),
        "events": platform.clock.act_count,
    }


def _interval(outcomes: Sequence[Outcome], scenario: Scenario) -> list[float] | None:
    """Returns the interval of the share of requests within both service levels."""
    in_order = sorted(outcomes, key=lambda outcome: outcome.asked_at)
    ends = slice_interval([each.ending is Ending.FINISHED and _is_good(each, scenario) for each in in_order])
    return None if ends is None else [round(end, 4) for end in ends]


def _costs(cost: float, token_count: int, output_count: int) -> dict[str, float]:
    """Returns what the workers cost, in the currency of their price, starts and idle time included."""
    return {
        "cost": round(cost, 4),
        "cost_per_million_tokens": _per(1e6 * cost, token_count),
        "cost_per_million_output_tokens": _per(1e6 * cost, output_count),
    }


def _is_good(outcome: Outcome, scenario: Scenario) -> bool:
    in_time = scenario.ttft_seconds is None or outcome.ttft <= scenario.ttft_seconds
    return in_time and (scenario.tpot_seconds is None or outcome.tpot <= scenario.tpot_seconds)


def _endings(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Counts the requests that did not finish, those refused by reason."""
    counts = Counter(outcome.ending for outcome in outcomes)
    reasons = Counter(outcome.rejection.value for outcome in outcomes if outcome.rejection is not None)
    others = {ending.value: counts[ending] for ending in Ending if ending not in (Ending.FINISHED, Ending.REFUSED)}
    return {"refused": counts[Ending.REFUSED], "refusals": dict(sorted(reasons.items())), **others}


def _percentiles(seconds: Iterable[float]) -> dict[str, float | None]:
    """Returns mean and percentiles in milliseconds. None: there are no values."""
    values = sorted(seconds)
    if not values:
        return dict.fromkeys(("mean", *(f"p{percent}" for percent in PERCENTILES)))
    found = {f"p{percent}": percentile(values, percent) or 0.0 for percent in PERCENTILES}
    return {name: round(1000 * value, 3) for name, value in ({"mean": sum(values) / len(values)} | found).items()}


def _errors(first_tokens: Sequence[FirstToken]) -> dict[str, float | None]:
    """Returns mean and percentiles of the errors of predicted times from dispatch to first token, as shares of those
    times. None: there are no predictions."""
    values = sorted(first_token.error for first_token in first_tokens)
    found = {f"p{percent}": percentile(values, percent) for percent in PERCENTILES}
    mean = sum(values) / len(values) if values else None
    return {name: None if value is None else round(value, 4) for name, value in ({"mean": mean} | found).items()}


def _per(count: float, whole: float) -> float:
    return round(count / whole, 4) if whole else 0.0
