"""Choice of drafter: none where there is nothing to draft from, and the draft model where it can pay."""

from tests.libs.engine.speculation.simulated_text import (
    SimulatedClock,
    SimulatedDrafter,
    SimulatedModel,
    make_sequence,
)

from headrace.engine.batching.drafter import Drafts
from headrace.engine.batching.sequence import Sequence
from headrace.engine.speculation.draft_history import MAX_LOOK_DISTANCE
from headrace.engine.speculation.draft_length import FIRST_PAUSE
from headrace.engine.speculation.model_record import PATIENCE
from headrace.engine.speculation.speculator import Speculator
from headrace.engine.speculation.step_cost import LIFETIME, StepCost

LENGTH = 3
"""Tokens that have to be the same before they count as a repetition."""
STEP = 0.01
TABLE = {rows: STEP * (1 + 0.03 * (rows - 1)) for rows in (1, 2, 4, 8)}
"""Seconds of a step, by row count."""


def make(draft_seconds: float | None = None, reading: float = 0.0) -> tuple[Speculator, SimulatedDrafter]:
    """A speculator with a draft model whose draft tokens take so long, or without one."""
    clock = SimulatedClock()
    seconds = draft_seconds or 0.0
    drafter = SimulatedDrafter(clock, lambda _: seconds, reading, StepCost({1: seconds, 8: seconds}))
    model = None if draft_seconds is None else drafter
    return Speculator(model, step_seconds=TABLE, clock=clock), drafter  # type: ignore[arg-type]


def propose(speculator: Speculator, *sequences: Sequence, limit: int = 4) -> Drafts:
    if not speculator.may_pay(len(sequences), len(sequences)):
        return {}
    limits = {sequence: limit for sequence in sequences if speculator.may_draft(sequence)}
    return speculator.propose(limits) if limits else {}


def grow(speculator: Speculator, sequence: Sequence, token_count: int, *, right: bool) -> int:
    """Adds tokens that repeat nothing, as if all draft tokens had been right or none. How many steps had some."""
    found = 0
    for _ in range(token_count):
        made = len(propose(speculator, sequence).get(sequence, ()))
        speculator.observe_step(1 + made, STEP * (1 + 0.03 * made))
        sequence.token_ids.append(1000 + len(sequence.token_ids))
        found += made > 0
        if made:
            speculator.observe(sequence, made if right else 0)
    return found


def test_without_a_repetition_nobody_is_asked() -> None:
    speculator, _ = make()
    sequence = make_sequence("r", 100)
    assert not speculator.may_draft(sequence)
    sequence.token_ids += (4, 5, 6)
    (drafts,) = propose(speculator, sequence).values()
    assert drafts == (7, 8, 9, 10)[: len(drafts)]


def test_a_text_that_does_not_repeat_itself_is_searched_less_and_less() -> None:
    """A repetition that comes later is found a few tokens after it began."""
    speculator, _ = make()
    sequence = make_sequence("r", 900)
    grow(speculator, sequence, 200, right=False)
    looks = []
    for token_id in range(1000 + 50, 1000 + 60):
        sequence.token_ids.append(token_id)
        looks.append(speculator.may_draft(sequence))
    assert looks.index(True) < LENGTH + MAX_LOOK_DISTANCE
    assert all(looks[looks.index(True) :])


def test_repetitions_are_tried_before_the_draft_model_and_kept_where_they_are_right() -> None:
    speculator, model = make(draft_seconds=0.1 * STEP)
    sequence = make_sequence("r", 100)
    sequence.token_ids += (4, 5, 6)
    following = 7
    for _ in range(2):
        drafts = propose(speculator, sequence, limit=3)[sequence]
        assert drafts == tuple(range(following, following + len(drafts)))
        following += len(drafts)
        sequence.token_ids += drafts
        speculator.observe(sequence, len(drafts))
    assert following > 8
    assert not model.asked


def test_a_draft_model_that_cannot_pay_is_not_asked() -> None:
    """However long the text becomes."""
    speculator, model = make(draft_seconds=2 * STEP)
    assert grow(speculator, make_sequence("r", 900), 500, right=True) == 0
    assert not model.asked


def test_a_draft_model_that_has_to_read_more_than_it_can_gain_is_not_asked() -> None:
    speculator, _ = make(draft_seconds=0.01 * STEP, reading=20 * STEP)
    assert grow(speculator, make_sequence("short", 20), 20, right=True) == 0
    assert grow(speculator, make_sequence("long", 900), 20, right=True) > 15


def test_a_draft_model_that_is_wrong_gives_up_with_the_text_and_is_tried_less_in_the_next_ones() -> None:
    speculator, _ = make(draft_seconds=0.1 * STEP)
    tries = []
    for index in range(12):
        sequence = make_sequence(str(index), 300)
        tries.append(grow(speculator, sequence, 200, right=False))
        speculator.forget(sequence)
    assert 0 < tries[0] <= 3 * (PATIENCE + 1)
    assert sum(tries[-6:]) < sum(tries[:6])


def test_a_draft_model_that_is_right_is_asked_at_nearly_every_step() -> None:
    """All drafts but the empty ones that measure a step without draft tokens."""
    speculator, _ = make(draft_seconds=0.1 * STEP)
    count = 4 * LIFETIME
    assert grow(speculator, make_sequence("r", 900), count, right=True) >= count * 0.95


def test_sequences_of_a_full_batch_do_without() -> None:
    """Draft tokens that pay for one sequence are rows of a step that has enough already for sixteen."""

    def costs(rows: int) -> float:
        return STEP * max(1.0, 0.25 * rows)

    clock = SimulatedClock()
    table = {rows: costs(rows) for rows in (1, 2, 4, 8, 16, 32)}
    known = StepCost({rows: 0.1 * seconds for rows, seconds in table.items()})
    drafter = SimulatedDrafter(clock, lambda rows: 0.1 * costs(rows), known=known)
    speculator = Speculator(drafter, step_seconds=table, clock=clock)  # type: ignore[arg-type]
    model = SimulatedModel(costs, speculator, clock)
    model.run([str(index) for index in range(16)], 32, lambda drafts, _: drafts, lambda count: 1000 + count)
    assert not drafter.asked
    assert not speculator.may_pay(16, 16)
    assert speculator.may_pay(1, 1)
    found = model.run(["alone"], 32, lambda drafts, _: drafts, lambda count: 1000 + count)
    assert found["plain"] > 1.5 * found["spent"]


def test_a_sequence_may_be_forgotten_before_its_step_is_over() -> None:
    """As one is whose logits are not finite. The step that took longer than expected is then nobody's loss."""
    speculator, _ = make(draft_seconds=0.1 * STEP)
    sequence = make_sequence("r", 100)
    assert propose(speculator, sequence)[sequence]
    speculator.forget(sequence)
    speculator.observe_step(5, 10 * STEP)
    speculator.observe(sequence, 1)
    assert propose(speculator, make_sequence("other", 100))


def test_a_grammar_is_left_alone_too_where_nothing_more_may_be_lost() -> None:
    clock = SimulatedClock()
    speculator = Speculator(step_seconds=TABLE, clock=clock)
    sequence = make_sequence("r", 100)
    sequence.matcher = SlowMatcher(clock)  # type: ignore[assignment]
    asked = []
    for _ in range(3 * FIRST_PAUSE):
        asked.append(speculator.may_draft(sequence))
        if asked[-1]:
            speculator.may_pay(1, 1)
            speculator.propose({sequence: 4})
        sequence.token_ids.append(1000 + len(sequence.token_ids))
    assert asked[0]
    assert sum(asked) <= 5


class SlowMatcher:
    """Stands for a TokenMatcher that forces nothing and takes long."""

    def __init__(self, clock: SimulatedClock) -> None:
        self._clock = clock

    def follow(self, _token_ids: list[int]) -> None:
        self._clock.seconds += 2 * STEP

    def forced(self, _limit: int) -> tuple[int, ...]:
        return ()

    def allowed(self, token_ids: tuple[int, ...]) -> tuple[int, ...]:
        return token_ids
