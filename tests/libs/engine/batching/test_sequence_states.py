"""Slots of states: each step continues the state of exactly the tokens before it, whatever happened to the request."""

import random
from dataclasses import dataclass, field

import pytest
from tests.libs.engine.batching.test_batcher import BLOCK_SIZE, make_batcher
from tests.libs.engine.engine_running import request

from headrace.engine.batching.batcher import Batcher
from headrace.engine.batching.step_plan import Chunk, Sample, StepPlan
from headrace.engine.kv.state_pool import StatePool

SNAPSHOTS, RUNNING = 3, 4
COMMON = tuple(range(1, 30))


@dataclass
class TextArena:
    """Stands in for a model: the state in a slot is the text that it was computed from."""

    slots: dict[int, tuple[int, ...]] = field(default_factory=dict)
    begun: int = 0
    """Texts that began with a snapshot."""
    chosen: list[int] = field(default_factory=list)
    """Tokens of the step before, which negative ids stand for."""

    def run(self, plan: StepPlan, order: random.Random) -> None:
        """Checks that each chunk continues the text before it, and moves the states."""
        for chunk in order.sample(plan.chunks, len(plan.chunks)):
            assert chunk.sequence.state is not None
            source, target, *captures = chunk.sequence.state.moves(chunk.start, chunk.end)
            assert source < 0 or source < RUNNING + SNAPSHOTS
            assert target < RUNNING
            before = () if source < 0 else self.slots[source]
            assert before == self.text(chunk, chunk.start)
            self.begun += source >= RUNNING
            self.slots[target] = self.text(chunk, chunk.end)
            for count, slot in zip(captures[::2], captures[1::2], strict=True):
                if count:
                    assert (chunk.start + count) % BLOCK_SIZE == 0
                    self.slots[slot] = self.text(chunk, chunk.start + count)

    def text(self, chunk: Chunk, count: int) -> tuple[int, ...]:
        tokens = chunk.sequence.context_ids(0, count)
        return tuple(token if token >= 0 else self.chosen[-1 - token] for token in tokens)


def samples_of(plan: StepPlan, order: random.Random) -> dict[Chunk, Sample]:
    return {chunk: Sample(order.randint(1, 3)) for chunk in plan.chunks if chunk.is_sampled}


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
    assert slot == 1
    pool.keep(b"a", slot)
    assert pool.pin(b"a") == 1
    assert pool.reserve() is None
    pool.forget(b"a")
    assert (pool.count_found([b"a"]), pool.reserve()) == (0, None)
    pool.unpin(1)
    assert pool.reserve() == 1


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
