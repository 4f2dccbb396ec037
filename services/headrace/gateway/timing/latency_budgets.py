"""Latency budgets: the time to the first token and per output token that each class is to get."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.errors import ConfigError
from headrace.gateway.timing.latency_verdict import LatencyVerdict
from headrace.gateway.timing.request_metrics import BUDGETS, GOOD_TOKENS
from headrace.gateway.timing.request_record import FINISHED, RequestRecord

CLASSES = ("realtime", "interactive", "default", "batch")
FAILURES = frozenset(
    {
        "overloaded",
        "queue_timeout",
        "deadline_exceeded",
        "stage_failed",
        "unavailable",
        "internal_error",
    }
)
"""Outcomes that are the platform's doing: such a request missed its budget."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Targets of one class, in seconds."""

    ttft: float
    """Time to the first token."""
    tpot: float
    """Mean time per output token after the first."""


class LatencyBudgets:
    """Counts which requests met the targets of their class. What clients asked wrongly or broke off does not count."""

    def __init__(self, ttft: Mapping[str, float], tpot: Mapping[str, float]) -> None:
        """`ttft`, `tpot`: seconds by class. Raises ConfigError if a class is missing or unknown."""
        for name, given in (("ttft_targets", ttft), ("tpot_targets", tpot)):
            if set(given) != set(CLASSES):
                raise ConfigError(f"{name} must have a value for each of {', '.join(CLASSES)}", param=name)
        self._budgets = {name: Budget(ttft[name], tpot[name]) for name in CLASSES}

    def judge(self, record: RequestRecord) -> None:
        """Notes and counts whether a request to generate that has ended met its budget."""
        record.verdict = verdict = self._verdict(record)
        if verdict is None:
            return
        for name, met in (("ttft", verdict.ttft_met), ("tpot", verdict.tpot_met), ("all", verdict.met)):
            if met is not None:
                labels = (record.model, record.request_class, name, "met" if met else "missed")
                BUDGETS.labels(*labels).inc()
        if verdict.met:
            GOOD_TOKENS.labels(record.model, record.request_class).inc(record.output_token_count)

    def _verdict(self, record: RequestRecord) -> LatencyVerdict | None:
        budget = self._budgets[record.request_class]
        if record.outcome in FAILURES:
            return LatencyVerdict(budget.ttft, budget.tpot, failed=True)
        first, each = record.first_token_seconds, record.output_token_seconds
        if record.outcome != FINISHED or first is None:
            return None
        return LatencyVerdict(
            budget.ttft, budget.tpot, first <= budget.ttft, None if each is None else each <= budget.tpot
        )
