"""Plans: budget, order, chunk borders, preemption; and books that hold under random operations."""

import random

import pytest
from engine_running import request
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.engine.batcher import Batcher
from headrace.engine.engine import EngineSpec
from headrace.engine.request import FinishReason
from headrace.engine.speculative.speculator import Speculator
from headrace.engine.step_plan import Sample, StepPlan
from headrace.errors.tree import InvalidRequest

BLOCK_SIZE = 4


def make_batcher(
    block_count: int = 64, budget: int = 32, running: int = 8, *, prefix_cache: bool = True, speculates: bool = False
) -> Batcher:
    spec = EngineSpec("test", 100, 200, running, budget, BLOCK_SIZE, block_count, frozenset({0}), "cpu", "none", 0)
    return Batcher(spec, prefix_cache=prefix_cache, drafter=Speculator() if speculates else None)


def answer(plan: StepPlan, token_id: int = 5) -> dict[str, Sample]:
    return {chunk.sequence.request_id: Sample(token_id if chunk.samples else None) for chunk in plan.chunks}


def summary(plan: StepPlan) -> list[tuple[str, int, int]]:
    return [(chunk.sequence.request_id, chunk.start, chunk.end) for chunk in plan.chunks]


def test_a_long_prompt_is_chunked_on_block_borders_beside_decodes() -> None:
    batcher = make_batcher(budget=10)
    batcher.add(request("short", range(1, 4), max_tokens=9))
    batcher.record(plan := batcher.plan(), answer(plan))
    batcher.add(request("long", range(1, 22), max_tokens=9))
    plans = []
    for _ in range(3):
        plans.append(plan := batcher.plan())
        batcher.record(plan, answer(plan))
    assert [summary(plan) for plan in plans] == [
        [("short", 3, 4), ("long", 0, 8)],
        [("short", 4, 5), ("long", 8, 16)],
        [("short", 5, 6), ("long", 16, 21)],
    ]


def test_the_last_prompt_token_is_computed_even_when_all_is_cached() -> None:
    batcher = make_batcher()
    for name in ("first", "second"):
        batcher.add(request(name, range(1, 9), max_tokens=1))
        (delta,) = batcher.record(plan := batcher.plan(), answer(plan))
    assert delta.cached_token_count == 4
    assert batcher.stats().prefix_hit_token_count == 4
    assert batcher.stats().prompt_token_count == 8 + 4


def test_salts_separate_tenants() -> None:
    batcher = make_batcher()
    for salt in ("a", "b"):
        base = request(salt, range(1, 9), max_tokens=1)
        batcher.add(type(base)(base.request_id, base.prompt_token_ids, base.sampling, cache_salt=salt))
        batcher.record(plan := batcher.plan(), answer(plan))
    assert batcher.stats().prefix_hit_token_count == 0


def test_the_youngest_is_preempted_and_nobody_admitted_in_that_step() -> None:
    batcher = make_batcher(block_count=4, prefix_cache=False)
    batcher.add(request("old", range(1, 5), max_tokens=9))
    batcher.add(request("young", range(11, 14), max_tokens=9))
    batcher.record(plan := batcher.plan(), answer(plan))
    batcher.add(request("new", (7,), max_tokens=1))
    while not batcher.stats().preemption_count:
        plan = batcher.plan()
        batcher.check_invariants()
        last = summary(plan)
        batcher.record(plan, answer(plan))
    assert [name for name, _, _ in last] == ["old"]
    assert batcher.stats().waiting_count == 2


def test_no_more_than_the_limit_run_at_once() -> None:
    batcher = make_batcher(running=3)
    for index in range(5):
        batcher.add(request(str(index), (1 + index,), max_tokens=5))
    assert len(batcher.plan().chunks) == 3


def test_the_same_id_twice_is_refused() -> None:
    batcher = make_batcher()
    batcher.add(request("r", (1,)))
    with pytest.raises(InvalidRequest, match="already running"):
        batcher.add(request("r", (1,)))


def test_end_of_sequence_stops_unless_ignored() -> None:
    batcher = make_batcher()
    batcher.add(request("stops", (1,), max_tokens=5))
    batcher.add(request("goes on", (1,), max_tokens=5, ignore_eos=True))
    deltas = batcher.record(plan := batcher.plan(), answer(plan, token_id=0))
    assert {delta.request_id: delta.finish_reason for delta in deltas} == {"stops": FinishReason.STOP, "goes on": None}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(8, 24), st.sampled_from([4, 6, 16, 64]), st.booleans())
def test_books_hold_and_everyone_finishes(seed: int, block_count: int, budget: int, prefix_cache: bool) -> None:
    """Random arrivals, cancellations and prompts with common beginnings, in pools too small for all."""
    rng = random.Random(seed)
    batcher = make_batcher(block_count=block_count, budget=budget, running=5, prefix_cache=prefix_cache)
    lengths: dict[str, int] = {}
    finished: dict[str, int] = {}
    for step in range(600):
        if step < 60 and rng.random() < 0.4:
            prompt = [1] * rng.randint(0, 12) + [rng.randint(1, 3) for _ in range(rng.randint(1, 8))]
            lengths[str(step)] = rng.randint(1, 8)
            batcher.add(request(str(step), prompt, max_tokens=lengths[str(step)]))
        if lengths and rng.random() < 0.05:
            batcher.cancel(rng.choice(list(lengths)))
        plan = batcher.plan()
        batcher.check_invariants()
        assert plan.token_count <= budget
        assert len({chunk.sequence.request_id for chunk in plan.chunks}) == len(plan.chunks)
        cancelled = rng.choice(plan.chunks).sequence.request_id if plan.chunks and rng.random() < 0.03 else None
        if cancelled:
            batcher.cancel(cancelled)
        for delta in batcher.record(plan, answer(plan)):
            assert delta.request_id != cancelled
            finished[delta.request_id] = finished.get(delta.request_id, 0) + len(delta.token_ids)
        batcher.check_invariants()
        if step >= 60 and not batcher.has_work():
            break
    assert not batcher.has_work()
    assert batcher.pool.used_count == 0
    for name, count in finished.items():
        assert count <= lengths[name]


def test_books_hold_for_100_000_random_steps() -> None:
    """One long life: arrivals, cancellations, preemptions, guesses of which some are right; then everyone finishes."""
    rng = random.Random(1)
    batcher = make_batcher(block_count=13, budget=24, running=6, speculates=True)
    open_requests: dict[str, int] = {}
    for step in range(100_000):
        if len(open_requests) < 9 and rng.random() < 0.3:
            prompt = [1, 2, 3] * rng.randint(0, 5) + [rng.randint(1, 3) for _ in range(rng.randint(1, 6))]
            open_requests[str(step)] = rng.randint(1, 12)
            batcher.add(request(str(step), prompt, max_tokens=open_requests[str(step)]))
        if open_requests and rng.random() < 0.02:
            name = rng.choice(list(open_requests))
            batcher.cancel(name)
            del open_requests[name]
        plan = batcher.plan()
        samples = answer(plan)
        for chunk in plan.chunks:
            kept = rng.randint(0, len(chunk.draft))
            samples[chunk.sequence.request_id] = Sample(
                rng.randint(1, 3) if chunk.samples else None, chunk.draft[:kept]
            )
        for delta in batcher.record(plan, samples):
            open_requests[delta.request_id] -= len(delta.token_ids)
            assert open_requests[delta.request_id] >= 0
            if delta.finish_reason is not None:
                del open_requests[delta.request_id]
        if step % 10 == 0:
            batcher.check_invariants()
    for _ in range(1000):
        plan = batcher.plan()
        batcher.record(plan, answer(plan))
    batcher.check_invariants()
    stats = batcher.stats()
    assert not batcher.has_work()
    assert batcher.pool.used_count == 0
    assert stats.preemption_count > 100
    assert stats.accepted_token_count > 1000
