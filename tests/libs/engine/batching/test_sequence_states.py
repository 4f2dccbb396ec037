"""Slots of states: each step continues the state of exactly the tokens before it, whatever happened to the request."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from tests.libs.engine.batching.test_batcher import BLOCK_SIZE, make_batcher
from tests.libs.engine.engine_running import request

from headrace.engine.batching.batcher import Batcher
from headrace.engine.batching.drafter import Drafts
from headrace.engine.batching.sequence import Sequence
from headrace.engine.batching.step_plan import Chunk, Sample, StepPlan
from headrace.engine.kv.state_pool import StatePool

SNAPSHOTS, RUNNING = 5, 4
COMMON = tuple(range(1, 30))


@dataclass
class TextArena:
    """Stands in for a model: the state in a slot is the text that it was computed from."""

    slots: dict[int, tuple[int, ...]] = field(default_factory=dict)
    begun: int = 0
    """Texts that began with a snapshot."""
    retraced: int = 0
    """Chunks that compute tokens again that were right beside a wrong draft."""
    chosen: list[int] = field(default_factory=list)
    """Tokens of the step before, which negative ids stand for."""

    def run(self, plan: StepPlan, order: random.Random) -> None:
        """Checks that each chunk continues the text before it, and moves the states."""
        for chunk in order.sample(plan.chunks, len(plan.chunks)):
            assert chunk.sequence.state is not None
            state = chunk.sequence.state
            source, target, *captures = state.moves(chunk.start, chunk.end, len(chunk.draft))
            assert max(source, target) < RUNNING + SNAPSHOTS
            before = () if source < 0 else self.slots[source]
            assert before == self.text(chunk, chunk.start)
            self.begun += source == state.origin_slot
            self.retraced += state.retraces and chunk.token_count > 1
            self.slots[target] = self.text(chunk, chunk.computed_end)
            for count, slot in zip(captures[::2], captures[1::2], strict=True):
                if count:
                    assert (chunk.start + count) % BLOCK_SIZE == 0 or (chunk.draft and chunk.start + count == chunk.end)
                    self.slots[slot] = self.text(chunk, chunk.start + count)

    def text(self, chunk: Chunk, count: int) -> tuple[int, ...]:
        """Returns the first tokens of a text that ends with the chunk's draft."""
        tokens = [*chunk.sequence.context_ids(0, chunk.end), *chunk.draft]
        return tuple(token if token >= 0 else self.chosen[-1 - token] for token in tokens[:count])


def samples_of(plan: StepPlan, order: random.Random) -> dict[Chunk, Sample]:
    """Chooses tokens at random, and how many of the draft tokens are right."""
    return {chunk: sample_of(chunk, order) for chunk in plan.chunks if chunk.is_sampled}


def sample_of(chunk: Chunk, order: random.Random) -> Sample:
    right_count = order.randint(0, len(chunk.draft))
    first, *further = (*chunk.draft[:right_count], order.randint(1, 3))
    return Sample(first, tuple(further))


@dataclass
class RandomDrafter:
    """Drafts a few random tokens for some of the sequences."""

    order: random.Random

    def may_pay(self, row_count: int, decode_count: int) -> bool:
        return True

    def may_draft(self, sequence: Sequence) -> bool:
        return self.order.random() < 0.7

    def propose(self, limits: Mapping[Sequence, int]) -> Drafts:
        return {
            sequence: tuple(self.order.randint(1, 3) for _ in range(self.order.randint(0, limit)))
            for sequence, limit in limits.items()
            if self.order.random() < 0.8
        }

    def observe(self, sequence: Sequence, accepted_count: int) -> None:
        assert accepted_count >= 0

    def forget(self, sequence: Sequence) -> None:
        assert sequence.request_id


def add_one(batcher: Batcher, name: str, order: random.Random) -> None:
    shared = COMMON[: order.choice((0, 3, 8, 17, 29))]
    prompt = (*shared, *(order.randint(1, 3) for _ in range(order.randint(1, 12))))
    batcher.add(request(name, prompt, max_tokens=order.randint(1, 20)))


@pytest.mark.parametrize("seed", range(30))
def test_any_history_continues_the_text_before(seed: int) -> None:
    order, arena = random.Random(seed), TextArena()
    batcher = make_batcher(block_count=24, budget=16, running=RUNNING, snapshot_count=SNAPSHOTS)
    for step in range(150):
        if order.random() < 0.4:
            add_one(batcher, f"{step}", order)
        if order.random() < 0.05:
            batcher.cancel(f"{order.randint(0, step)}")
        if order.random() < 0.02:
            batcher.evacuate()
        plan = batcher.plan()
        arena.run(plan, order)
        batcher.record(plan, samples_of(plan, order))
        batcher.check_invariants()
    assert arena.begun > 0


@pytest.mark.parametrize("seed", range(10))
def test_steps_that_are_planned_ahead_and_dropped_change_nothing(seed: int) -> None:
    """A plan may be made while the step before is computed, and be dropped; its snapshots were given places by then."""
    order, arena = random.Random(seed), TextArena()
    batcher = make_batcher(block_count=40, budget=16, running=RUNNING, snapshot_count=SNAPSHOTS)
    for step in range(100):
        if order.random() < 0.5:
            add_one(batcher, f"{step}", order)
        plan = batcher.plan()
        arena.run(plan, order)
        batcher.record(plan, samples_of(plan, order))
        if order.random() < 0.5:
            batcher.plan_ahead()
        batcher.check_invariants()


@pytest.mark.parametrize("seed", range(20))
def test_steps_that_are_launched_ahead_continue_the_text_before(seed: int) -> None:
    """As TextEngine does it: a step is launched before the tokens of the one before are recorded."""
    order, arena = random.Random(seed), TextArena()
    batcher = make_batcher(block_count=30, budget=16, running=RUNNING, snapshot_count=SNAPSHOTS)
    flight: tuple[StepPlan, list[Chunk], dict[Chunk, Sample]] | None = None
    for step in range(200):
        if order.random() < 0.3:
            add_one(batcher, f"{step}", order)
        if order.random() < 0.05:
            batcher.cancel(f"{order.randint(0, step)}")
        plan = batcher.plan() if flight is None else batcher.plan_ahead()
        launched = None
        if plan is not None and plan.chunks:
            samples = samples_of(plan, order)
            arena.run(plan, order)
            launched = (plan, list(samples), samples)
        if flight is not None:
            batcher.record(flight[0], flight[2])
        flight = launched
        if flight is not None:
            arena.chosen = [sample.token_id or 0 for sample in flight[2].values()]
            batcher.expect(flight[0], flight[1])
        batcher.check_invariants()
    assert arena.begun > 0


@pytest.mark.parametrize("prefix_cache", [True, False])
@pytest.mark.parametrize("seed", range(30))
def test_draft_tokens_that_are_wrong_leave_no_trace_in_a_state(seed: int, prefix_cache: bool) -> None:
    order, arena = random.Random(seed), TextArena()
    batcher = make_batcher(
        block_count=24,
        budget=16,
        running=RUNNING,
        snapshot_count=SNAPSHOTS,
        prefix_cache=prefix_cache,
        drafter=RandomDrafter(order),
    )
    drafted = 0
    for step in range(200):
        if order.random() < 0.3:
            add_one(batcher, f"{step}", order)
        if order.random() < 0.05:
            batcher.cancel(f"{order.randint(0, step)}")
        if order.random() < 0.02:
            batcher.evacuate()
        plan = batcher.plan()
        arena.run(plan, order)
        if order.random() < 0.1 and plan.chunks:
            batcher.cancel(order.choice(plan.chunks).sequence.request_id)
        drafted += sum(len(chunk.draft) for chunk in plan.chunks)
        batcher.record(plan, samples_of(plan, order))
        batcher.check_invariants()
    assert drafted > 10
    assert arena.retraced > 0
    assert arena.begun > 0 or not prefix_cache


def test_where_no_slot_is_free_there_are_no_drafts() -> None:
    order, arena = random.Random(1), TextArena()
    batcher = make_batcher(running=2, snapshot_count=1, prefix_cache=False, drafter=RandomDrafter(order))
    batcher.add(request("a", COMMON[:9], max_tokens=20))
    while batcher.has_work():
        plan = batcher.plan()
        assert plan.token_count == sum(chunk.end - chunk.start for chunk in plan.chunks)
        arena.run(plan, order)
        batcher.record(plan, samples_of(plan, order))
        batcher.check_invariants()


def test_a_running_sequence_holds_one_slot_and_gives_it_back() -> None:
    order, arena = random.Random(0), TextArena()
    batcher = make_batcher(running=2, snapshot_count=0)
    for name in "abc":
        batcher.add(request(name, COMMON[:9], max_tokens=2))
    for _ in range(8):
        plan = batcher.plan()
        arena.run(plan, order)
        batcher.record(plan, samples_of(plan, order))
        batcher.check_invariants()
    assert not batcher.has_work()
    assert set(arena.slots) == {0, 1}


def test_a_snapshot_that_is_about_to_be_read_keeps_its_place() -> None:
    pool = StatePool(1, 1)
    slot = pool.reserve()
    assert slot is not None
    pool.keep(b"a", slot)
    assert pool.pin(b"a") == slot
    assert pool.reserve() is None
    pool.forget(b"a")
    assert (pool.count_found([b"a"]), pool.reserve()) == (0, None)
    pool.unpin(slot)
    assert pool.reserve() == slot


def test_the_least_recently_used_snapshot_gives_way() -> None:
    pool = StatePool(0, 2)
    for name in (b"a", b"b"):
        slot = pool.reserve()
        assert slot is not None
        pool.keep(name, slot)
    pool.unpin(pool.pin(b"a"))
    assert pool.reserve() is not None
    assert (pool.count_found([b"a"]), pool.count_found([b"b"])) == (1, 0)
    pool.supersede(b"a")  # a sequence has begun with it
    assert pool.count_found([b"x", b"a", b"y"]) == 2
