"""Buckets fill at an even pace and never beyond the brim; a refusal says when a request would fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.access.key_record import KeyLimits
from headrace.gateway.access.limits.key_budget import PLACE_SECONDS, KeyBudget, Spending
from headrace.gateway.access.limits.limit import limits_of
from headrace.gateway.access.limits.rate_headers import duration, rate_headers
from headrace.gateway.access.limits.translation import to_budget, to_message

LIMITS = KeyLimits(requests_per_minute=60, tokens_per_minute=600, tokens_per_day=100_000, concurrency=2)
BUCKETS = limits_of(LIMITS)


def budget(now: float = 1000.0) -> KeyBudget:
    made = KeyBudget()
    made.fill(BUCKETS, now)
    return made


def test_a_bucket_fills_at_an_even_pace() -> None:
    used = budget()
    used.spend(BUCKETS, Spending(60, 600))
    refusal = used.refusal(LIMITS, Spending(1, 5))
    assert refusal is not None
    assert refusal.limit == BUCKETS[0]
    assert refusal.retry_after == pytest.approx(1.0)
    used.fill(BUCKETS, 1001.0)
    assert used.refusal(LIMITS, Spending(1, 5)) is None
    assert used.levels["tokens_per_minute"].value == pytest.approx(10)


def test_the_longest_wait_is_told() -> None:
    used = budget()
    used.spend(BUCKETS, Spending(60, 600))
    refusal = used.refusal(LIMITS, Spending(1, 100))
    assert refusal is not None
    assert refusal.retry_after == pytest.approx(10.0)
    never = used.refusal(LIMITS, Spending(1, 601))
    assert never is not None
    assert never.retry_after is None


def test_places_of_a_gateway_that_is_gone_are_free_again() -> None:
    used = budget()
    used.hold("one", 1, 1000.0)
    used.hold("two", 1, 1005.0)
    refusal = used.refusal(LIMITS, Spending(1, 1))
    assert refusal is not None
    assert refusal.limit is None
    used.fill(BUCKETS, 1000.0 + PLACE_SECONDS)
    assert list(used.places) == ["two"]
    assert used.refusal(LIMITS, Spending(1, 1)) is None


def test_a_clock_that_is_behind_fills_nothing_twice() -> None:
    used = budget()
    used.spend(BUCKETS, Spending(60, 0))
    for now in (1001.0, 500.0, 1001.0, 500.0):
        used.fill(BUCKETS, now)
    assert used.levels["requests_per_minute"].value == pytest.approx(1.0)


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(0, 700), st.floats(0, 1)), max_size=40))
def test_no_more_is_granted_than_one_bucket_and_what_flows_in(steps: list[tuple[float, int, float]]) -> None:
    used, now, net = budget(), 1000.0, 0
    limit = next(one for one in BUCKETS if one.name == "tokens_per_minute")
    for pause, wanted, share in steps:
        now += pause
        used.fill(BUCKETS, now)
        if used.refusal(LIMITS, Spending(0, wanted)) is None:
            used.spend(BUCKETS, Spending(0, wanted))
            unused = int(wanted * share)
            used.spend(BUCKETS, Spending(0, -unused))
            net += wanted - unused
        assert 0 <= used.levels[limit.name].value <= limit.capacity
    assert net <= limit.capacity + (now - 1000.0) * limit.capacity / limit.seconds + 1e-6


def test_a_budget_is_written_and_read_without_loss() -> None:
    used = budget()
    used.spend(BUCKETS, Spending(1, 7))
    used.hold("gateway@1f", 3, 1000.0)
    assert to_budget(to_message(used)) == used


def test_headers_tell_of_the_limit_that_ends_first() -> None:
    used = budget()
    used.spend(BUCKETS, Spending(6, 300))
    assert rate_headers(LIMITS, used) == {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "54",
        "x-ratelimit-reset-requests": "6s",
        "x-ratelimit-limit-tokens": "600",
        "x-ratelimit-remaining-tokens": "300",
        "x-ratelimit-reset-tokens": "30s",
    }


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0ms"), (0.012, "12ms"), (1.5, "1.5s"), (59, "59s"), (360, "6m0s"), (86399, "23h59m59s")],
)
def test_times_read_as_openai_writes_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text
