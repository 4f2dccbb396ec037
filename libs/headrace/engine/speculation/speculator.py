"""Chooses the source and length of each sequence's drafts: the grammar, a repetition in the text, or a draft model."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.engine.batching.drafter import Drafts
from headrace.engine.batching.sequence import Sequence
from headrace.engine.contract.held_memory import HeldMemory
from headrace.engine.speculation.draft_length import DraftLength
from headrace.engine.speculation.model_drafter import ModelDrafter
from headrace.engine.speculation.ngram_index import NgramIndex
from headrace.engine.speculation.step_cost import StepCost

FEW, MANY = 2, 16
"""Counts of consecutive steps of one size: the first few are measured, then one in many."""
ASSUMED = {"grammar": 0.9, "ngram": 0.4, "model": 0.85}
"""Prior share of correct drafts, by source. It is high for a draft model, so that the model gets a try."""
PATIENCE = 3
"""Number of pauses of the draft model per text. After each one it must read the tokens since."""
TRUST = 4.0
"""Number of drafts that the draft model's record in other texts counts as."""
FRESHNESS, DRIFT = 0.2, 0.02
"""Weights in the draft model's record: of the latest text, and of the prior after a text without model drafts."""
LONGEST_LOOK_DISTANCE = 4
"""Tokens between searches for a repetition, in a text that has not repeated itself for a while."""
HORIZON, FREE_RUN = 256, 4
"""Most tokens for which the draft model is expected to be useful after reading a text: without a grammar, and with one,
which forces tokens in between."""


@dataclass(slots=True)
class _DraftHistory:
    """Sources of one sequence's drafts, and their acceptance so far."""

    lengths: dict[str, DraftLength]
    """Draft lengths by source."""
    ngrams: NgramIndex = field(default_factory=NgramIndex)
    next_look: int = 0
    """Text length in tokens before which there is no search for repetitions."""
    look_distance: int = 1
    """Tokens between searches."""
    source: str = ""
    """Source of the last drafts."""
    draft_count: int = 0


class Speculator:
    """A Drafter that estimates the gain of each draft token from measured acceptance and measured step times."""

    def __init__(self, model: ModelDrafter | None = None, memory: HeldMemory | None = None) -> None:
        """`model` drafts if neither grammar nor text does, and holds `memory`."""
        self._model = model
        self.memory = memory or HeldMemory()
        self._step_cost = StepCost()
        self._histories: dict[Sequence, _DraftHistory] = {}
        self._model_acceptance = {False: ASSUMED["model"], True: ASSUMED["model"]}
        """Share of correct drafts of the draft model in recent texts, without and with a grammar."""
        self._last_token_count = self._alike_count = 0

    def observe_step(self, token_count: int, seconds: float) -> None:
        """Records the seconds that the model took for a step of decodes and their drafts."""
        if token_count == self._last_token_count:
            self._alike_count += 1
            if self._alike_count >= FEW and self._alike_count % MANY:
                return
        else:
            self._last_token_count, self._alike_count = token_count, 0
        self._step_cost.observe(token_count, seconds)

    def may_draft(self, sequence: Sequence) -> bool:
        history = self._histories.get(sequence)
        if history is None:
            history = self._histories[sequence] = self._begin(sequence)
        if sequence.matcher is not None or self._may_ask_model(history, sequence):
            return True
        return len(sequence.token_ids) >= history.next_look and _look(history, sequence)

    def propose(self, limits: Mapping[Sequence, int]) -> Drafts:
        drafts: Drafts = {}
        for_model: dict[Sequence, int] = {}
        for sequence, limit in limits.items():
            history = self._histories[sequence]
            found = _look_up(history, sequence, limit)
            source, length = self._choose(history, sequence, found, limit)
            history.source, history.draft_count = source, length
            if source == "model":
                for_model[sequence] = length
            elif length:
                drafts[sequence] = found[source][:length]
        if for_model and self._model is not None:
            drafts |= self._model.propose(for_model)
            for sequence in for_model:
                self._histories[sequence].draft_count = len(drafts.get(sequence, ()))
        return drafts

    def observe(self, sequence: Sequence, accepted_count: int) -> None:
        history = self._histories.get(sequence)
        if history is not None and history.draft_count:
            history.lengths[history.source].observe(history.draft_count, accepted_count)
            history.draft_count = 0

    def forget(self, sequence: Sequence) -> None:
        history = self._histories.pop(sequence, None)
        if self._model is not None:
            self._model.forget(sequence)
            if history is not None:
                self._learn(sequence, history.lengths["model"])

    def sleep(self) -> None:
        """Frees the draft model's KV cache. Requires that every sequence is forgotten. No drafts until `wake`."""
        if self._model is not None:
            self._model.sleep()

    def wake(self) -> None:
        if self._model is not None:
            self._model.wake()

    def _begin(self, sequence: Sequence) -> _DraftHistory:
        lengths = {source: DraftLength(acceptance) for source, acceptance in ASSUMED.items()}
        lengths["model"] = DraftLength(self._model_acceptance[sequence.matcher is not None], TRUST, PATIENCE)
        return _DraftHistory(lengths)

    def _learn(self, sequence: Sequence, length: DraftLength) -> None:
        """Adds a finished text to the draft model's record."""
        constrained = sequence.matcher is not None
        known = self._model_acceptance[constrained]
        if length.tested_count:
            known += FRESHNESS * (length.right_count / length.tested_count - known)
        else:
            known += DRIFT * (ASSUMED["model"] - known)
        self._model_acceptance[constrained] = known

    def _may_ask_model(self, history: _DraftHistory, sequence: Sequence) -> bool:
        return self._model is not None and len(sequence.token_ids) >= history.lengths["model"].paused_until

    def _choose(
        self, history: _DraftHistory, sequence: Sequence, found: dict[str, tuple[int, ...]], limit: int
    ) -> tuple[str, int]:
        """Returns the source with the highest expected gain, and its draft length. Free drafts from text and grammar
        are tried before the draft model: if they are right, they stay right for longer."""
        sequence_count, token_count = len(self._histories), sequence.token_count
        plain_cost = self._step_cost(sequence_count)
        draft_cost = self._step_cost(sequence_count + 1) - plain_cost
        best, best_length, best_gain = "", 0, 1.0
        for source, drafts in found.items():
            length, gain = history.lengths[source].choose(token_count, len(drafts), plain_cost, draft_cost)
            if gain > best_gain:
                best, best_length, best_gain = source, length, gain
        if best_length and not history.lengths[best].tried:
            return best, best_length
        if self._model is not None and self._may_ask_model(history, sequence):
            length, gain = _rate(self._model, history.lengths["model"], sequence, limit, plain_cost, draft_cost)
            if gain > best_gain:
                return "model", length
        return best, best_length


def _look(history: _DraftHistory, sequence: Sequence) -> bool:
    """Whether the text repeats itself. After each miss the next search comes a little later: with a small model, even a
    search takes a noticeable share of a step."""
    token_count = len(sequence.token_ids)
    if token_count < history.lengths["ngram"].paused_until:
        history.next_look = history.lengths["ngram"].paused_until
        return False
    found = history.ngrams.repeats(sequence.token_ids)
    history.look_distance = 1 if found else min(history.look_distance + 1, LONGEST_LOOK_DISTANCE)
    history.next_look = token_count + history.look_distance
    return found


def _look_up(history: _DraftHistory, sequence: Sequence, limit: int) -> dict[str, tuple[int, ...]]:
    """Returns the drafts that cost nothing, by source."""
    repeated, matcher = _repeated(history, sequence, limit), sequence.matcher
    if matcher is None:
        return {"ngram": repeated}
    matcher.follow(sequence.output_token_ids)
    return {"grammar": matcher.forced(limit), "ngram": matcher.allowed(repeated)}


def _repeated(history: _DraftHistory, sequence: Sequence, limit: int) -> tuple[int, ...]:
    """Returns the tokens that followed before, or none during a pause. The index then catches up later."""
    token_ids = sequence.token_ids
    return history.ngrams.find(token_ids, limit) if len(token_ids) >= history.lengths["ngram"].paused_until else ()


def _rate(
    model: ModelDrafter, length: DraftLength, sequence: Sequence, limit: int, plain_cost: float, draft_cost: float
) -> tuple[int, float]:
    """Returns the number of draft model tokens that pay off, and their speedup as a factor. Spreads the cost of initial
    reading over all tokens that may follow."""
    horizon = HORIZON if sequence.matcher is None else FREE_RUN
    following = max(1, min(horizon, sequence.longest_count - sequence.token_count))
    chosen, gain = length.choose(
        sequence.token_count,
        room := min(limit, model.room(sequence)),
        plain_cost,
        draft_cost + model.seconds_per_draft_token(sequence),
        model.seconds_to_begin(sequence) / following,
    )
    if room and not chosen:
        model.pass_over(sequence)
    return chosen, gain
