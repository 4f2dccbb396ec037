"""Chooses for each sequence who guesses, and how far: the grammar, a repetition in the text, or a draft model."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.engine.held_memory import HeldMemory
from headrace.engine.sequence import Sequence
from headrace.engine.speculative.drafter import Guesses
from headrace.engine.speculative.guess_length import GuessLength
from headrace.engine.speculative.model_drafter import ModelDrafter
from headrace.engine.speculative.ngram_index import NgramIndex
from headrace.engine.speculative.step_cost import StepCost

ALIKE = 8
"""Steps of one size in a row that are all measured. Then every one in as many."""


@dataclass(slots=True)
class _Guesser:
    """What one sequence gets guesses from, and how good they were."""

    ngrams: NgramIndex = field(default_factory=NgramIndex)
    lengths: dict[str, GuessLength] = field(
        default_factory=lambda: {
            "grammar": GuessLength(acceptance=0.9),
            "ngram": GuessLength(acceptance=0.6),
            "model": GuessLength(acceptance=0.7),
        }
    )
    """By source."""
    source: str = ""
    """Of the last guesses."""
    guess_count: int = 0


class Speculator:
    """A Drafter that expects a gain from each guess that it makes, by measured acceptance and measured step times."""

    def __init__(self, model: ModelDrafter | None = None, memory: HeldMemory | None = None) -> None:
        """`model` guesses where neither grammar nor text does, and holds `memory`."""
        self._model = model
        self.memory = memory or HeldMemory()
        self._step_cost = StepCost()
        self._guessers: dict[Sequence, _Guesser] = {}
        self._last_token_count = self._alike_count = 0

    def observe_step(self, token_count: int, seconds: float) -> None:
        """Learns how long the model took for a step of decodes and their guesses. Of many alike, a few will do."""
        self._alike_count = self._alike_count + 1 if token_count == self._last_token_count else 0
        self._last_token_count = token_count
        if self._alike_count < ALIKE or self._alike_count % ALIKE == 0:
            self._step_cost.observe(token_count, seconds)

    def propose(self, limits: Mapping[Sequence, int]) -> Guesses:
        guesses: Guesses = {}
        for_model: dict[Sequence, int] = {}
        for sequence, limit in limits.items():
            guesser = self._guessers.setdefault(sequence, _Guesser())
            found = self._look_up(guesser, sequence, limit)
            if self._model is None and not any(found.values()):
                continue
            source, length = self._choose(guesser, sequence, found, limit, len(limits))
            guesser.source, guesser.guess_count = source, length
            if source == "model":
                for_model[sequence] = length
            elif length:
                guesses[sequence] = found[source][:length]
        if for_model and self._model is not None:
            guesses |= self._model.propose(for_model)
        for sequence in for_model:
            self._guessers[sequence].guess_count = len(guesses.get(sequence, ()))
        return guesses

    def observe(self, sequence: Sequence, accepted_count: int) -> None:
        guesser = self._guessers.get(sequence)
        if guesser is not None and guesser.guess_count:
            guesser.lengths[guesser.source].observe(guesser.guess_count, accepted_count)
            guesser.guess_count = 0

    def forget(self, sequence: Sequence) -> None:
        self._guessers.pop(sequence, None)
        if self._model is not None:
            self._model.forget(sequence)

    def sleep(self) -> None:
        """Gives the draft model's KV cache back, once every sequence is forgotten. No guesses until `wake`."""
        if self._model is not None:
            self._model.sleep()

    def wake(self) -> None:
        if self._model is not None:
            self._model.wake()

    def _look_up(self, guesser: _Guesser, sequence: Sequence, limit: int) -> dict[str, tuple[int, ...]]:
        """The guesses that cost nothing, by source."""
        repeated = guesser.ngrams.find(sequence.token_ids, limit)
        if sequence.matcher is None:
            return {"ngram": repeated}
        sequence.matcher.follow(sequence.output_token_ids)
        return {"grammar": sequence.matcher.forced(limit), "ngram": sequence.matcher.allowed(repeated)}

    def _choose(
        self, guesser: _Guesser, sequence: Sequence, found: dict[str, tuple[int, ...]], limit: int, company: int
    ) -> tuple[str, int]:
        """The source that promises most, and the length of its guesses."""
        options = {source: (len(guesses), 0.0) for source, guesses in found.items()}
        if self._model is not None:
            options["model"] = (min(limit, self._model.room(sequence)), self._model.seconds_per_guess)
        plain_cost, next_cost = self._step_cost(company), self._step_cost(company + 1)
        best, best_length, best_gain = "", 0, 1.0
        for source, (available, guess_seconds) in options.items():
            guess_cost = next_cost - plain_cost + guess_seconds
            length, gain = guesser.lengths[source].choose(sequence.token_count, available, plain_cost, guess_cost)
            if length and gain > best_gain:
                best, best_length, best_gain = source, length, gain
        return best, best_length
