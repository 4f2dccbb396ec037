"""Requests meet or miss the latency budget of their class."""

import pytest
from prometheus_client import REGISTRY

from headrace.errors import ConfigError
from headrace.errors.table import ROWS
from headrace.gateway.access.tenant import CLASSES as KNOWN
from headrace.gateway.config import GatewaySettings
from headrace.gateway.timing.latency_budgets import CLASSES, FAILURES, LatencyBudgets
from headrace.gateway.timing.request_record import RequestRecord
from headrace.gateway.timing.stopwatch import Stopwatch

EACH = dict.fromkeys(CLASSES, 1.0)
BUDGETS = LatencyBudgets(EACH | {"interactive": 0.5}, EACH | {"interactive": 0.1})


def counted(budget: str, result: str) -> float:
    labels = {"model": "slo", "class": "interactive", "budget": budget, "result": result}
    return REGISTRY.get_sample_value("headrace_latency_budgets_total", labels) or 0.0


def judged(outcome: str, first: float | None = None, each: float = 0.0) -> dict[str, float]:
    """Counters that grew, for a request with a first token after `first` seconds and further ones after `each`."""
    record = RequestRecord(Stopwatch(100.0), model="slo", operation="chat", request_class="interactive")
    record.outcome, record.output_token_count = outcome, 3
    if first is not None:
        record.first_token = 100.0 + first
        record.last_token = record.first_token + 2 * each
    names = [(budget, result) for budget in ("ttft", "tpot", "all") for result in ("met", "missed")]
    before = {name: counted(*name) for name in names}
    BUDGETS.judge(record)
    return {f"{name[0]} {name[1]}": 1.0 for name in names if counted(*name) > before[name]}


def test_both_budgets_must_be_met() -> None:
    assert set(judged("finished", 0.4, 0.05)) == {"ttft met", "tpot met", "all met"}
    assert set(judged("finished", 0.6, 0.05)) == {"ttft missed", "tpot met", "all missed"}
    assert set(judged("finished", 0.4, 0.2)) == {"ttft met", "tpot missed", "all missed"}


def test_a_failure_of_the_platform_is_a_miss_and_one_of_the_client_is_nothing() -> None:
    assert set(judged("overloaded")) == {"all missed"}
    assert judged("request_cancelled", 0.4) == judged("invalid_value") == {}


def test_tokens_within_budget_are_goodput() -> None:
    def good() -> float:
        labels = {"model": "slo", "class": "interactive"}
        return REGISTRY.get_sample_value("headrace_good_output_tokens_total", labels) or 0.0

    before = good()
    judged("finished", 0.4, 0.05)
    judged("finished", 0.4, 0.2)
    assert good() - before == 3


def test_every_class_has_a_budget() -> None:
    assert set(CLASSES) == set(KNOWN)
    settings = GatewaySettings()
    LatencyBudgets(settings.ttft_targets, settings.tpot_targets)
    with pytest.raises(ConfigError, match="ttft_targets must have a value for each of"):
        LatencyBudgets({"default": 1.0}, EACH)


def test_failures_are_outcomes_that_exist() -> None:
    assert {row.code for row in ROWS} >= FAILURES
