"""Needs of prompts hold the time of a first token by the formula for one queue, which a drawn queue confirms."""

import math
import random

import pytest

from headrace.scheduler.core.demand.arrivals import Flow
from headrace.scheduler.core.demand.need import PromptNeed, SpaceNeed


def prompts(rate: float, tokens: float, prefill_rate: float = 1000.0, **figures: float) -> PromptNeed:
    flow = Flow(rate, tokens, 2 * tokens**2)
    return PromptNeed(flow, figures.get("waiting", 0.0), prefill_rate, figures.get("ttft", 1.0), 10.0)


def test_places_are_used_to_the_share_that_is_asked_for() -> None:
    assert [SpaceNeed("requests", 3.4, "").count_at(use) for use in (1.0, 0.85, 0.6)] == [4, 4, 6]
    assert SpaceNeed("requests", 0.0, "").count_at(0.85) == 0


def test_no_prompt_needs_no_worker_and_few_need_one() -> None:
    assert prompts(0.0, 0.0).count_at(0.85) == 0
    assert prompts(0.1, 100).count_at(0.85) == 1


def test_waits_want_more_workers_than_the_share_in_use() -> None:
    """Eight prompts of 100 tokens a second use a worker of 1000 to 80 %, and wait for far more than a second."""
    assert prompts(8, 100).count_at(0.85) == 2
    assert prompts(8, 100, ttft=100.0).count_at(0.85) == 1


@pytest.mark.parametrize("rate", [2.0, 6.0, 20.0])
def test_the_95th_percentile_of_a_drawn_queue_is_within_the_time_of_a_first_token(rate: float) -> None:
    chance, tokens = random.Random(3), 300.0
    count = prompts(rate, tokens).count_at(0.85)
    speed, now, free, waits = count * 1000.0, 0.0, 0.0, list[float]()
    for _ in range(20_000):
        now += chance.expovariate(rate)
        waits.append(max(0.0, free - now))
        free = max(now, free) + chance.expovariate(1 / tokens) / speed
    assert sorted(waits)[int(0.95 * len(waits))] <= 1.0


def test_tokens_that_are_late_are_computed_beside_new_ones() -> None:
    assert prompts(1, 100, waiting=45_000).count_at(0.85) == math.ceil(0.1 / 0.85 + 4.5)


def test_a_rate_that_grows_without_bound_ends() -> None:
    assert prompts(1e9, 1e6).count_at(0.85) == 100_000
