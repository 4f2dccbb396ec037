"""Choice of drafter: none where there is nothing to guess from, and the draft model where it can pay."""

from collections.abc import Mapping

from tests.libs.engine.engine_running import request

from headrace.engine.batching.drafter import Drafts
from headrace.engine.batching.sequence import Sequence
from headrace.engine.speculation.speculator import LONGEST_LOOK_DISTANCE, PATIENCE, Speculator

LENGTH = 3
"""Tokens that have to be the same before they count as a repetition."""
STEP = 0.01
"""Seconds of a step."""


class StubModel:
    """Stands for a ModelDrafter: says what it costs, and is always right or never."""

    def __init__(self, seconds_per_draft_token: float = 0.0, seconds_to_begin: float = 0.0) -> None:
        self.seconds = seconds_per_draft_token
        self.reading = seconds_to_begin
        self.passed_over_count = 0
        self.asked: list[Sequence] = []

    def seconds_per_draft_token(self, sequence: Sequence) -> float:
        return self.seconds

    def seconds_to_begin(self, sequence: Sequence) -> float:
        return 0.0 if sequence in self.asked else self.reading

    def pass_over(self, sequence: Sequence) -> None:
        self.passed_over_count += 1

    def room(self, sequence: Sequence) -> int:
        return 100

    def propose(self, limits: Mapping[Sequence, int]) -> Drafts:
        self.asked += limits
        return {sequence: (1,) * limit for sequence, limit in limits.items()}

    def forget(self, sequence: Sequence) -> None:
        """Keeps its notes."""


def make_speculator(model: StubModel | None = None) -> Speculator:
    speculator = Speculator(model)  # type: ignore[arg-type]
    for token_count in (1, 2, 1, 3, 1):
        speculator.observe_step(token_count, STEP + 0.0001 * token_count)
    return speculator


def make_sequence(name: str, max_tokens: int = 100) -> Sequence:
    prompt = range(3, 13)
    return Sequence(request(name, prompt, max_tokens=max_tokens, temperature=0), 0, 0, frozenset(), 1000)


def grow(speculator: Speculator, sequence: Sequence, token_count: int, *, right: bool) -> int:
    """Adds tokens that repeat nothing, as if all guesses had been right or none. How many steps had guesses."""
    found = 0
    for _ in range(token_count):
        guesses = speculator.propose({sequence: 4}) if speculator.may_draft(sequence) else {}
        made = len(guesses.get(sequence, ()))
        sequence.token_ids.append(1000 + len(sequence.token_ids))
        found += made > 0
        if made:
            speculator.observe(sequence, made if right else 0)
    return found


def test_without_a_repetition_nobody_is_asked() -> None:
    speculator, sequence = make_speculator(), make_sequence("r")
    assert not speculator.may_draft(sequence)
    sequence.token_ids += (4, 5, 6)
    assert speculator.may_draft(sequence)
    (guesses,) = speculator.propose({sequence: 4}).values()
    assert guesses == (7, 8, 9, 10)[: len(guesses)]


def test_a_text_that_does_not_repeat_itself_is_searched_less_and_less() -> None:
    """A repetition that comes later is found a few tokens after it began."""
    speculator, sequence = make_speculator(), make_sequence("r", max_tokens=900)
    grow(speculator, sequence, 200, right=False)
    looks = []
    for token_id in range(1000 + 50, 1000 + 60):
        sequence.token_ids.append(token_id)
        looks.append(speculator.may_draft(sequence))
    assert looks.index(True) < LENGTH + LONGEST_LOOK_DISTANCE
    assert all(looks[looks.index(True) :])


def test_repetitions_are_tried_before_the_draft_model_and_kept_where_they_are_right() -> None:
    model = StubModel(seconds_per_draft_token=0.1 * STEP)
    speculator, sequence = make_speculator(model), make_sequence("r")
    sequence.token_ids += (4, 5, 6)
    assert speculator.may_draft(sequence)
    following = 7
    for _ in range(2):
        guesses = speculator.propose({sequence: 3})[sequence]
        assert guesses == tuple(range(following, following + len(guesses)))
        following += len(guesses)
        sequence.token_ids += guesses
        speculator.observe(sequence, len(guesses))
    assert following > 8
    assert not model.asked


def test_a_draft_model_that_cannot_pay_is_not_asked() -> None:
    """However long the text becomes, and whatever is asked again."""
    model = StubModel(seconds_per_draft_token=2 * STEP)
    assert grow(make_speculator(model), make_sequence("r"), 500, right=True) == 0
    assert not model.asked
    assert model.passed_over_count == PATIENCE + 1


def test_a_draft_model_that_has_to_read_more_than_it_can_gain_is_not_asked() -> None:
    model = StubModel(seconds_to_begin=100 * STEP)
    assert grow(make_speculator(model), make_sequence("short", max_tokens=20), 20, right=True) == 0
    assert grow(make_speculator(model), make_sequence("long", max_tokens=900), 20, right=True) == 20


def test_a_draft_model_that_is_wrong_gives_up_with_the_text_and_is_tried_less_in_the_next_ones() -> None:
    speculator = make_speculator(StubModel(seconds_per_draft_token=0.3 * STEP))
    tries = []
    for index in range(12):
        sequence = make_sequence(str(index))
        tries.append(grow(speculator, sequence, 200, right=False))
        speculator.forget(sequence)
    assert 0 < tries[0] <= 2 * (PATIENCE + 1)
    assert sum(tries[-6:]) <= PATIENCE + 1
    assert tries[-6:].count(0) >= 4


def test_a_draft_model_that_is_right_is_asked_at_every_step() -> None:
    speculator, sequence = make_speculator(StubModel(seconds_per_draft_token=0.1 * STEP)), make_sequence("r")
    assert grow(speculator, sequence, 50, right=True) == 50
