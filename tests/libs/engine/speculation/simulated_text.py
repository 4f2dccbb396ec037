"""A model, a draft model and a text without arithmetic: what a speculator decides, on a clock of its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.libs.engine.engine_running import request

from headrace.engine.batching.drafter import Drafts
from headrace.engine.batching.sequence import Sequence
from headrace.engine.speculation.speculator import Speculator
from headrace.engine.speculation.step_cost import StepCost

Costs = Callable[[int], float]
"""Seconds of a step by its number of rows."""
PROMPT = range(3, 13)


@dataclass(slots=True)
class SimulatedClock:
    seconds: float = 0.0
    look_seconds: float = 0.0
    """Time that passes before every second reading: what looking and choosing take."""
    is_running: bool = False

    def __call__(self) -> float:
        self.seconds += self.look_seconds if self.is_running else 0.0
        self.is_running = not self.is_running
        return self.seconds


@dataclass(slots=True)
class SimulatedDrafter:
    """Stands for a ModelDrafter. Drafts a token that no text has: the text says what was right."""

    clock: SimulatedClock
    costs: Costs
    reading: float = 0.0
    """Seconds before the first draft tokens of a text."""
    known: StepCost = field(default_factory=StepCost)
    asked: dict[Sequence, int] = field(default_factory=dict)
    reading_total: float = 0.0

    def step_seconds(self, row_count: int) -> float:
        return self.known(row_count)

    def seconds_to_begin(self, sequence: Sequence) -> float:
        return 0.0 if sequence in self.asked else self.reading

    def seconds_to_enter(self) -> float:
        return 0.0

    def room(self, sequence: Sequence) -> int:
        return 100

    def propose(self, limits: Mapping[Sequence, int]) -> Drafts:
        for sequence in limits:
            self.reading_total += self.seconds_to_begin(sequence)
            self.clock.seconds += self.seconds_to_begin(sequence)
            self.asked[sequence] = self.asked.get(sequence, 0) + 1
        for place in range(max(limits.values())):
            count = sum(limit > place for limit in limits.values())
            self.clock.seconds += self.costs(count)
            self.known.observe(count, self.costs(count))
        return {sequence: (-1,) * limit for sequence, limit in limits.items()}

    def forget(self, sequence: Sequence) -> None:
        self.asked.pop(sequence, None)


Accepts = Callable[[int, int], int]
"""Number of draft tokens that are right, of so many, at a length of the text."""


@dataclass(slots=True)
class SimulatedModel:
    """Generates texts with draft tokens, and says how long it took."""

    costs: Costs
    speculator: Speculator
    clock: SimulatedClock

    def run(
        self, names: list[str], token_count: int, accepts: Accepts, continuation: Callable[[int], int]
    ) -> dict[str, float]:
        """Returns the seconds that the texts would have taken without speculation, as `plain`, and those that they
        took, as `spent`; and the number of `steps`. `continuation` is the token at a length of the text."""
        sequences = [make_sequence(name, token_count) for name in names]
        began, plain, steps = self.clock.seconds, 0.0, 0
        while sequences:
            made = self._step(sequences, accepts, continuation)
            steps += 1
            plain += made * self.costs(len(sequences)) / len(sequences)
            for sequence in [each for each in sequences if each.output_count >= token_count]:
                sequences.remove(sequence)
                self.speculator.forget(sequence)
        return {"plain": plain, "spent": self.clock.seconds - began, "steps": steps}

    def _step(self, sequences: list[Sequence], accepts: Accepts, continuation: Callable[[int], int]) -> int:
        """Returns the number of tokens made."""
        drafts: Drafts = {}
        if self.speculator.may_pay(len(sequences), len(sequences)):
            limits = {
                sequence: limit
                for sequence in sequences
                if (limit := min(8, sequence.longest_count - sequence.token_count - 1)) > 0
                and self.speculator.may_draft(sequence)
            }
            drafts = self.speculator.propose(limits) if limits else {}
        rows = len(sequences) + sum(map(len, drafts.values()))
        self.clock.seconds += self.costs(rows)
        self.speculator.observe_step(rows, self.costs(rows))
        made = 0
        for sequence in sequences:
            count = len(drafts.get(sequence, ()))
            accepted = accepts(count, sequence.token_count) if count else 0
            for _ in range(accepted + 1):
                sequence.token_ids.append(continuation(len(sequence.token_ids)))
            made += accepted + 1
            if count:
                self.speculator.observe(sequence, accepted)
        return made


def make_sequence(name: str, token_count: int) -> Sequence:
    return Sequence(request(name, PROMPT, max_tokens=token_count, temperature=0), 0, 0, frozenset(), 10_000)
