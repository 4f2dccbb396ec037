"""Plans: budget, order, chunk boundaries, preemption; and counts that hold under random operations."""

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.libs.engine.engine_running import request

from headrace.engine.batching.batcher import Batcher
from headrace.engine.batching.drafter import Drafter
from headrace.engine.batching.sequence import Sequence
from headrace.engine.batching.step_plan import Chunk, Sample, StepPlan
from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.grammar import Grammar, GrammarKind
from headrace.engine.contract.request import Delta, FinishReason, Urgency
from headrace.engine.speculation.speculator import Speculator
from headrace.errors.tree import InvalidRequest
from headrace.kv.block_hash import hash_blocks

BLOCK_SIZE = 4
SHORT_CONTEXT = {"long_context": "evict", "max_model_length": 24}


def make_batcher(
    block_count: int = 64,
    budget: int = 32,
    running: int = 8,
    *,
    prefix_cache: bool = True,
    speculates: bool = False,
    drafter: Drafter | None = None,
    **facts: Any,
) -> Batcher:
    spec = EngineSpec("test", 100, 200, running, budget, BLOCK_SIZE, block_count, frozenset({0}), "cpu", "none", 0)
    spec = replace(spec, **facts)
    return Batcher(spec, prefix_cache=prefix_cache, drafter=Speculator() if speculates else drafter)


def answer(plan: StepPlan, token_id: int = 5) -> dict[Chunk, Sample]:
    return {chunk: Sample(token_id if chunk.is_sampled else None) for chunk in plan.chunks}


def take_step(batcher: Batcher, token_id: int = 5) -> tuple[StepPlan, list[Delta]]:
    """Plans a step and records that each of its samples is `token_id`. Returns the plan, and the deltas."""
    plan = batcher.plan()
    return plan, batcher.record(plan, answer(plan, token_id))


def summary(plan: StepPlan) -> list[tuple[str, int, int]]:
    return [(chunk.sequence.request_id, chunk.start, chunk.end) for chunk in plan.chunks]


def test_a_long_prompt_is_chunked_on_block_borders_beside_decodes() -> None:
    batcher = make_batcher(budget=10)
    batcher.add(request("short", range(1, 4), max_tokens=9))
    take_step(batcher)
    batcher.add(request("long", range(1, 22), max_tokens=9))
    assert [summary(take_step(batcher)[0]) for _ in range(3)] == [
        [("short", 3, 4), ("long", 0, 8)],
        [("short", 4, 5), ("long", 8, 16)],
        [("short", 5, 6), ("long", 16, 21)],
    ]


def test_the_last_prompt_token_is_computed_even_when_all_is_cached() -> None:
    batcher = make_batcher()
    for name in ("first", "second"):
        batcher.add(request(name, range(1, 9), max_tokens=1))
        _, (delta,) = take_step(batcher)
    assert delta.cached_token_count == 4
    assert batcher.stats().prefix_hit_token_count == 4
    assert batcher.stats().prompt_token_count == 8 + 4


def test_salts_separate_tenants() -> None:
    batcher = make_batcher()
    for salt in ("a", "b"):
        base = request(salt, range(1, 9), max_tokens=1)
        batcher.add(type(base)(base.request_id, base.prompt_token_ids, base.sampling, cache_salt=salt))
        take_step(batcher)
    assert batcher.stats().prefix_hit_token_count == 0


def test_the_youngest_is_preempted_and_nobody_admitted_in_that_step() -> None:
    batcher = make_batcher(block_count=4, prefix_cache=False)
    batcher.add(request("old", range(1, 5), max_tokens=9))
    batcher.add(request("young", range(11, 14), max_tokens=9))
    take_step(batcher)
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
    _, deltas = take_step(batcher, token_id=0)
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


class AnyMatcher:
    """Stands for a TokenMatcher: a grammar that forces some tokens and allows all."""

    def follow(self, output_token_ids: list[int]) -> None:
        """Learns nothing."""

    def forced(self, limit: int) -> tuple[int, ...]:
        return (1, 2, 3)[:limit]

    def allowed(self, token_ids: tuple[int, ...]) -> tuple[int, ...]:
        return token_ids


class RandomLife:
    """A batcher to which anything may happen at any time, and what its clients are owed."""

    def __init__(self, seed: int, batcher: Batcher, window: int | None = None) -> None:
        self.batcher = batcher
        self.window = window
        self.sleep_count = 0
        self._rng = random.Random(seed)
        self._owed: dict[str, int] = {}
        """Tokens that may still come for each open request."""
        self._held: dict[str, Sequence] = {}
        self._added_count = 0

    def step(self) -> None:
        """Some operations, a plan, some cancellations, and the plan's outcome."""
        for operation, probability in ((self.add, 0.3), (self.release, 0.2), (self.cancel, 0.02), (self.sleep, 0.007)):
            if self._rng.random() < probability:
                operation()
                self.batcher.check_invariants()
        plan = self.batcher.plan()
        self.batcher.check_invariants()
        assert plan.token_count <= 24
        self.check_blocks(plan)
        if self._rng.random() < 0.01:
            self.cancel()
        self.finish(plan)
        self.batcher.check_invariants()

    def add(self) -> None:
        if len(self._owed) >= 9:
            return
        name, self._added_count = str(self._added_count), self._added_count + 1
        prompt = [1, 2, 3] * self._rng.randint(0, 5) + [self._rng.randint(1, 3) for _ in range(self._rng.randint(1, 6))]
        self._owed[name] = self._rng.randint(1, 12)
        grammar = Grammar(GrammarKind.JSON_OBJECT) if self._rng.random() < 0.3 else None
        asked = request(name, prompt, max_tokens=self._owed[name], grammar=grammar)
        sequence = self.batcher.add(replace(asked, urgency=self._rng.choice(list(Urgency))))
        if sequence.awaits_grammar:
            self._held[name] = sequence

    def release(self) -> None:
        """A grammar is compiled."""
        if self._held:
            sequence = self._held.pop(self._rng.choice(list(self._held)))
            sequence.matcher = AnyMatcher()  # type: ignore[assignment]
            self.batcher.release(sequence)

    def cancel(self) -> None:
        if self._owed:
            name = self._rng.choice(list(self._owed))
            self.batcher.cancel(name)
            self._held.pop(name, None)
            del self._owed[name]

    def sleep(self) -> None:
        self.batcher.evacuate()
        self.sleep_count += 1
        assert self.batcher.pool.used_count == 0
        assert self.batcher.stats().running_count == 0

    def finish(self, plan: StepPlan) -> None:
        """Some guesses were right, and now and then the text ends."""
        samples = {}
        for chunk in plan.chunks:
            token_id = self._rng.choice((1, 2, 3) if self._rng.random() < 0.98 else (0,))
            kept = chunk.draft[: self._rng.randint(0, len(chunk.draft))]
            samples[chunk] = Sample(token_id if chunk.is_sampled else None, kept)
        for delta in self.batcher.record(plan, samples):
            self._owed[delta.request_id] -= len(delta.token_ids)
            assert self._owed[delta.request_id] >= 0
            if delta.finish_reason is not None:
                del self._owed[delta.request_id]

    def check_blocks(self, plan: StepPlan) -> None:
        """Each token has a block that no other sequence writes to, and all that it attends to is still there."""
        written: set[int] = set()
        for chunk in plan.chunks:
            table, first = chunk.sequence.block_table, 0
            if self.window is not None:
                first = max(0, chunk.start + 1 - self.window) // BLOCK_SIZE
            assert self.batcher.pool.no_block not in table[first:]
            own = set(table[chunk.start // BLOCK_SIZE : (chunk.computed_end - 1) // BLOCK_SIZE + 1])
            assert len(own) == (chunk.computed_end - 1) // BLOCK_SIZE + 1 - chunk.start // BLOCK_SIZE
            assert not own & written
            written |= own

    def end(self) -> None:
        """Steps without further operations until every sequence ends."""
        while self._held:
            self.release()
        for _ in range(1000):
            self.finish(self.batcher.plan())
            self.batcher.check_invariants()
        assert not self._owed
        assert not self.batcher.has_work()
        assert self.batcher.pool.used_count == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("window", "block_count", "step_count", "facts"),
    [(None, 13, 10_000, {}), (6, 8, 10_000, {}), (None, 9, 10_000, SHORT_CONTEXT), (6, 8, 10_000, SHORT_CONTEXT)],
)
def test_books_hold_for_thousands_of_random_steps(
    window: int | None, block_count: int, step_count: int, facts: dict[str, Any]
) -> None:
    """One long life: arrivals, some of which wait for a grammar; cancellations, preemptions, sleep, and guesses of
    which some are right; with windows, and streams past the context's end. Then every sequence finishes."""
    batcher = make_batcher(block_count=block_count, budget=24, running=6, speculates=True, window=window, **facts)
    life = RandomLife(1, batcher, window)
    for _ in range(step_count):
        life.step()
    life.end()
    stats = life.batcher.stats()
    assert stats.preemption_count > 100
    assert stats.accepted_token_count > 1000
    assert stats.prefix_hit_token_count > 1000
    assert life.sleep_count > 50


def test_blocks_before_the_window_are_given_back_and_still_found() -> None:
    """40 tokens with a window of 6 hold three blocks at most. The prefix cache keeps the others until they are reused,
    and a hit needs only those in the window."""
    batcher = make_batcher(block_count=8, budget=8, window=6)
    batcher.add(request("long", range(1, 31), max_tokens=10))
    while batcher.has_work():
        take_step(batcher)
        assert batcher.stats().used_block_count <= 4
        batcher.check_invariants()
    kept = batcher.pool.find_seen(
        hash_blocks(tuple(range(1, 31)), batcher._spec.block_size, ""), lambda count: max(0, count - 2)
    )
    assert kept[:5] == [batcher.pool.no_block] * 5
    assert len(kept) == 7
    batcher.add(request("again", range(1, 31), max_tokens=1))
    plan, (delta,) = take_step(batcher)
    assert summary(plan) == [("again", 28, 30)]
    assert delta.cached_token_count == 28


def test_a_stream_with_a_window_needs_little_room() -> None:
    prompt = range(1, 31)
    with pytest.raises(InvalidRequest, match="KV cache"):
        make_batcher(block_count=5, budget=8).add(request("r", prompt, max_tokens=150))
    batcher = make_batcher(block_count=5, budget=8, window=6)
    batcher.add(request("r", prompt, max_tokens=150))
    count = 0
    while batcher.has_work():
        _, deltas = take_step(batcher)
        count += sum(len(delta.token_ids) for delta in deltas)
    assert count == 150
    assert batcher.stats().preemption_count == 0
