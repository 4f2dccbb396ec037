"""The more urgent runs first, at the expense of the batch class if need be; the tokens are the same all along."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.libs.engine.engine_running import DEFAULTS, engine_config, finish, request, run, tokens
from tests.libs.engine.tiny_models import make_oracle, make_prompts

from headrace.engine.batching.batcher import Batcher
from headrace.engine.batching.step_plan import Sample, StepPlan
from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.request import Delta, EngineRequest, Urgency
from headrace.engine.engines.sim import SimConfig, SimEngine
from headrace.engine.loading.load_text_engine import load_text_engine

BLOCK_SIZE = 4


def make_batcher(block_count: int = 64, budget: int = 32, running: int = 8) -> Batcher:
    spec = EngineSpec("test", 100, 200, running, budget, BLOCK_SIZE, block_count, frozenset({0}), "cpu", "none", 0)
    return Batcher(spec, prefix_cache=False)


def urgent(name: str, urgency: Urgency, prompt: Iterable[int] = (1,), max_tokens: int = 20) -> EngineRequest:
    return replace(request(name, prompt, max_tokens=max_tokens), urgency=urgency)


def step(batcher: Batcher) -> StepPlan:
    plan = batcher.plan()
    batcher.check_invariants()
    batcher.record(plan, {chunk: Sample(5 if chunk.is_sampled else None) for chunk in plan.chunks})
    batcher.check_invariants()
    return plan


def names(plan: StepPlan) -> list[str]:
    return [chunk.sequence.request_id for chunk in plan.chunks]


def test_those_who_wait_are_taken_by_class_then_by_arrival() -> None:
    batcher = make_batcher(running=2)
    for name, urgency in (
        ("batch", Urgency.BATCH),
        ("default", Urgency.DEFAULT),
        ("second interactive", Urgency.INTERACTIVE),
        ("third interactive", Urgency.INTERACTIVE),
        ("realtime", Urgency.REALTIME),
    ):
        batcher.add(urgent(name, urgency, max_tokens=1))
    assert names(step(batcher)) == ["realtime", "second interactive"]
    assert names(step(batcher)) == ["third interactive", "default"]
    assert names(step(batcher)) == ["batch"]


def test_realtime_takes_the_place_of_the_youngest_of_the_batch_class() -> None:
    batcher = make_batcher(running=3)
    for name, urgency in (("interactive", Urgency.INTERACTIVE), ("old", Urgency.BATCH), ("young", Urgency.BATCH)):
        batcher.add(urgent(name, urgency))
    step(batcher)
    assert batcher.stats().pausable_count == 2
    batcher.add(urgent("realtime", Urgency.REALTIME, max_tokens=2))
    assert sorted(names(step(batcher))) == ["interactive", "old", "realtime"]
    assert (batcher.stats().pausable_count, batcher.stats().waiting_count) == (1, 1)
    step(batcher)
    assert sorted(names(step(batcher))) == ["interactive", "old", "young"]


@pytest.mark.parametrize("urgency", [Urgency.INTERACTIVE, Urgency.DEFAULT, Urgency.BATCH])
def test_only_realtime_pauses_others(urgency: Urgency) -> None:
    batcher = make_batcher(running=1)
    batcher.add(urgent("batch", Urgency.BATCH, max_tokens=3))
    step(batcher)
    batcher.add(urgent("other", urgency))
    assert names(step(batcher)) == ["batch"]
    assert batcher.stats().preemption_count == 0


def test_only_the_batch_class_is_paused() -> None:
    batcher = make_batcher(running=1)
    batcher.add(urgent("default", Urgency.DEFAULT, max_tokens=3))
    step(batcher)
    batcher.add(urgent("realtime", Urgency.REALTIME))
    assert names(step(batcher)) == ["default"]


def test_realtime_takes_the_blocks_of_as_many_as_it_needs() -> None:
    batcher = make_batcher(block_count=13, budget=64)
    for index in range(3):
        batcher.add(urgent(str(index), Urgency.BATCH, range(1, 13)))
    step(batcher)
    assert batcher.stats().pausable_count == 3
    batcher.add(urgent("realtime", Urgency.REALTIME, range(1, 20), max_tokens=1))
    assert names(step(batcher)) == ["0", "realtime"]


def test_nobody_is_paused_where_that_would_not_be_enough() -> None:
    batcher = make_batcher(block_count=12, budget=64)
    batcher.add(urgent("default", Urgency.DEFAULT, range(1, 25)))
    batcher.add(urgent("batch", Urgency.BATCH, range(1, 9)))
    step(batcher)
    batcher.add(urgent("realtime", Urgency.REALTIME, range(1, 33), max_tokens=3))
    assert names(step(batcher)) == ["default", "batch"]
    assert batcher.stats().preemption_count == 0


def test_when_blocks_run_out_the_least_urgent_goes_first_though_it_is_older() -> None:
    batcher = make_batcher(block_count=4)
    batcher.add(urgent("batch", Urgency.BATCH, range(1, 5), max_tokens=9))
    batcher.add(urgent("interactive", Urgency.INTERACTIVE, range(1, 4), max_tokens=9))
    while not batcher.stats().preemption_count:
        plan = step(batcher)
    assert names(plan) == ["interactive"]


def test_the_prompt_of_the_more_urgent_is_read_first_but_decodes_come_before_it() -> None:
    batcher = make_batcher(budget=9)
    batcher.add(urgent("decodes", Urgency.BATCH))
    step(batcher)
    batcher.add(urgent("long", Urgency.BATCH, range(1, 30)))
    assert names(step(batcher)) == ["decodes", "long"]
    batcher.add(urgent("realtime", Urgency.REALTIME, range(1, 14), max_tokens=1))
    plans = [[(chunk.sequence.request_id, chunk.token_count) for chunk in step(batcher).chunks] for _ in range(2)]
    assert plans == [[("decodes", 1), ("realtime", 8)], [("decodes", 1), ("realtime", 5)]]
    assert names(step(batcher)) == ["decodes", "long"]


def test_tokens_that_wait_are_counted() -> None:
    batcher = make_batcher(budget=8, running=1)
    batcher.add(urgent("long", Urgency.DEFAULT, range(1, 21)))
    batcher.add(urgent("next", Urgency.DEFAULT, range(1, 6)))
    assert batcher.stats().waiting_token_count == 25
    step(batcher)
    assert batcher.stats().waiting_token_count == 17
    batcher.cancel("long")
    assert batcher.stats().waiting_token_count == 5
    step(batcher)
    assert batcher.stats().waiting_token_count == 0


def test_a_stream_that_is_paused_again_and_again_ends_with_the_same_tokens() -> None:
    def load() -> SimEngine:
        return SimEngine(SimConfig(max_running_count=2, block_size=BLOCK_SIZE, block_count=16))

    paused = [urgent(str(index), Urgency.BATCH, range(1, 9), max_tokens=15) for index in range(2)]
    expected = run(load(), *paused)
    engine = load()
    for each in paused:
        engine.add(each)
    streams: dict[str, list[Delta]] = {}
    for index in range(40):
        if index % 4 == 2:
            engine.add(urgent(f"realtime {index}", Urgency.REALTIME, max_tokens=1))
        for delta in engine.step():
            streams.setdefault(delta.request_id, []).append(delta)
        engine.check_invariants()
    assert engine.stats().preemption_count >= 4
    assert {name: tokens(streams[name]) for name in expected} == expected


@pytest.mark.usefixtures("each_kernel")
@pytest.mark.parametrize("sampling", [{"temperature": 0.0}, {"seed": 3, "top_p": 0.9, "frequency_penalty": 0.5}])
def test_a_model_goes_on_with_the_same_tokens_after_a_pause(tmp_path: Path, sampling: dict[str, Any]) -> None:
    make_oracle(tmp_path, "grouped")
    settings = {"max_step_token_count": 64, "block_count": 64, "thread_count": 1, "max_running_count": 2} | DEFAULTS
    prompts = make_prompts((5, 40, 20))
    batch = [
        replace(request(str(index), prompt, max_tokens=16, logprob_count=1, **sampling), urgency=Urgency.BATCH)
        for index, prompt in enumerate(prompts[:2])
    ]
    expected: dict[str, Any] = {}
    for each in batch:
        expected |= run(load_text_engine(tmp_path, engine_config(**settings)), each)
    engine = load_text_engine(tmp_path, engine_config(**settings))
    for each in batch:
        engine.add(each)
    streams: dict[str, list[Delta]] = {"0": [], "1": []}
    for _ in range(6):
        for delta in engine.step():
            streams[delta.request_id].append(delta)
    engine.add(urgent("realtime", Urgency.REALTIME, prompts[2], max_tokens=3))
    for name, stream in finish(engine).items():
        streams.setdefault(name, []).extend(stream)
    assert engine.stats().preemption_count == 1
    assert {name: tokens(streams[name]) for name in expected} == expected
