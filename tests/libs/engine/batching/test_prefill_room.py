"""Prefill chunks beside sequences that decode: as long as a step may take, and no longer."""

from dataclasses import replace

import pytest
from tests.libs.engine.batching.test_urgency import names, urgent

from headrace.domain.step_times import StepTimes
from headrace.engine.batching.batcher import Batcher
from headrace.engine.batching.step_plan import Sample, StepPlan
from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.request import Urgency

TIMES = StepTimes(0.02, prompt_token_seconds=0.001, sequence_seconds=0.01)
BLOCK_SIZE = 16


def make_batcher(seconds: float = 0.1, **facts: int) -> Batcher:
    spec = EngineSpec("t", 100, 2000, 8, 512, BLOCK_SIZE, 512, frozenset({0}), "cpu", "n", 0, max_step_seconds=seconds)
    return Batcher(replace(spec, **facts), prefix_cache=False)  # type: ignore[arg-type]


def step(batcher: Batcher, times: StepTimes | None = TIMES) -> StepPlan:
    plan = batcher.plan(times)
    batcher.check_invariants()
    batcher.record(plan, {chunk: Sample(5 if chunk.is_sampled else None) for chunk in plan.chunks})
    return plan


def beside(batcher: Batcher, urgency: Urgency = Urgency.DEFAULT) -> Batcher:
    """Adds a prompt of a thousand tokens beside a sequence that decodes."""
    batcher.add(urgent("stream", urgency, max_tokens=100))
    step(batcher)
    batcher.add(urgent("prompt", Urgency.DEFAULT, [1] * 1000))
    return batcher


def chunks(plan: StepPlan) -> dict[str, int]:
    return {chunk.sequence.request_id: chunk.token_count for chunk in plan.chunks}


def test_a_prompt_is_read_in_parts_that_fit_the_time() -> None:
    batcher = beside(make_batcher())
    counts = []
    while (count := chunks(plan := step(batcher))["prompt"]) > 1:
        assert chunks(plan)["stream"] == 1
        assert TIMES.seconds(count, 1, 0) <= 0.1
        counts.append(count)
    # 70 ms are left beside the stream; a part ends with a block.
    assert counts[:-1] == [64] * (len(counts) - 1)
    assert sum(counts) == 1000


def test_prompts_share_what_is_left() -> None:
    batcher = beside(make_batcher())
    batcher.add(urgent("short", Urgency.INTERACTIVE, [1] * 20))
    assert chunks(step(batcher)) == {"stream": 1, "short": 20, "prompt": 48}


def test_steps_that_are_long_without_prompts_still_read_some() -> None:
    """They take twice as long at most."""
    assert chunks(step(beside(make_batcher(0.01))))["prompt"] == 16
    slow = replace(TIMES, base_seconds=0.2)
    assert chunks(step(beside(make_batcher(0.1)), slow))["prompt"] == 208


@pytest.mark.parametrize(
    ("seconds", "times", "urgency"),
    [
        pytest.param(0.0, TIMES, Urgency.DEFAULT, id="no limit"),
        pytest.param(0.1, None, Urgency.DEFAULT, id="unknown times"),
        pytest.param(0.1, TIMES, Urgency.BATCH, id="only a batch waits"),
        pytest.param(0.1, StepTimes(0.02), Urgency.DEFAULT, id="prompts take no time"),
    ],
)
def test_prompts_are_read_as_fast_as_tokens_allow(seconds: float, times: StepTimes | None, urgency: Urgency) -> None:
    assert chunks(step(beside(make_batcher(seconds), urgency), times))["prompt"] == 511 - 511 % BLOCK_SIZE


def test_alone_a_prompt_has_the_whole_step() -> None:
    batcher = make_batcher()
    batcher.add(urgent("prompt", Urgency.DEFAULT, [1] * 1000))
    assert chunks(step(batcher)) == {"prompt": 512}


def test_what_was_held_back_is_there_in_the_next_step() -> None:
    batcher = beside(make_batcher())
    step(batcher)
    batcher.cancel("stream")
    assert names(plan := step(batcher)) == ["prompt"]
    assert chunks(plan)["prompt"] == 512
