"""Plan of one step, and its outcome: the messages between batcher and model."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from operator import attrgetter

from headrace.engine.batching.sequence import Sequence
from headrace.engine.contract.request import TokenLogprob


class Chunk:
    """Consecutive tokens of one sequence to run through the model. Never changed."""

    # No dataclass: one is made for each token, and several ask for what follows from its bounds.
    __slots__ = ("draft", "end", "is_sampled", "sequence", "start", "token_count")

    def __init__(self, sequence: Sequence, start: int, end: int, draft: tuple[int, ...] = ()) -> None:
        self.sequence = sequence
        self.start = start
        """Index of the first token in the sequence's context."""
        self.end = end
        """Index one past the last token of the sequence in this chunk."""
        self.draft = draft
        """Draft tokens, computed in the same step. Only where the chunk is sampled from."""
        self.token_count = end + len(draft) - start
        """Tokens that are computed, draft tokens included."""
        self.is_sampled = end == len(sequence.token_ids) - sequence.dropped_count and not sequence.scores_only
        """Whether a new token follows from the last one of the chunk."""

    @property
    def computed_end(self) -> int:
        """Index one past the last token that is computed, draft tokens included."""
        return self.end + len(self.draft)

    @property
    def token_ids(self) -> list[int]:
        if not self.draft:
            return self.sequence.context_ids(self.start, self.end)
        return [*self.sequence.context_ids(self.start, self.end), *self.draft]

    @property
    def sampled_sequences(self) -> list[Sequence]:
        """The sequence at each token that is sampled from: after none, one, … all of its draft tokens."""
        if self.sequence.takes_likeliest:
            # The text does not matter where only the most likely token is wanted.
            return [self.sequence] * (1 + len(self.draft))
        return list(accumulate(self.draft, lambda text, drafted: text.continued((drafted,)), initial=self.sequence))

    @property
    def scored_prompt_range(self) -> range:
        """Indices of the prompt tokens whose log-probabilities this chunk is to deliver."""
        sequence = self.sequence
        if not sequence.wants_prompt_logprobs:
            return range(0)
        return range(max(self.start + 1, len(sequence.prompt_logprobs)), min(self.end + 1, sequence.prompt_count))


_TOKEN_COUNT = attrgetter("token_count")


@dataclass(slots=True)
class StepPlan:
    """The chunks of one step: at most one per sequence. Never changed."""

    chunks: tuple[Chunk, ...]
    asks_drafts: bool = False
    """Whether there could be draft tokens. The time of such a step is measured."""
    token_count: int = field(init=False)
    only_decodes: bool = field(init=False)
    """Whether no prompt is read. Draft tokens may be verified."""

    def __post_init__(self) -> None:
        self.token_count = sum(map(_TOKEN_COUNT, self.chunks))
        is_plain = self.token_count == len(self.chunks)
        self.only_decodes = is_plain or all(chunk.end - chunk.start == 1 for chunk in self.chunks)

    @property
    def decode_count(self) -> int:
        return sum(chunk.token_count == 1 for chunk in self.chunks)

    @property
    def runs_ahead(self) -> bool:
        """Whether the next step can be planned and launched before the outcome of this one is known."""
        return not self.asks_drafts and all(chunk.sequence.runs_ahead for chunk in self.chunks)


@dataclass(slots=True)
class PlanBuilder:
    """A plan while it is being made."""

    budget_left: int
    """Tokens that still fit the step."""
    chunks: dict[Sequence, Chunk] = field(default_factory=dict)
    preempted: set[Sequence] = field(default_factory=set)
    promised_count: int | None = None
    """Blocks that running sequences will need besides the ones they hold. None: to be counted."""
    may_preempt: bool = True
    """Whether sequences may lose their blocks."""
    is_short: bool = False
    """Whether a sequence would have lost its blocks, if it might."""
    asks_drafts: bool = False
    """Whether there could be draft tokens."""

    def add_chunk(self, chunk: Chunk) -> None:
        self.chunks[chunk.sequence] = chunk
        self.budget_left -= chunk.token_count

    def add_draft(self, sequence: Sequence, drafts: tuple[int, ...]) -> None:
        """Lets a planned decode compute draft tokens too."""
        planned = self.chunks[sequence]
        self.chunks[sequence] = Chunk(sequence, planned.start, planned.end, drafts)
        self.budget_left -= len(drafts)

    def preempt(self, sequence: Sequence) -> None:
        """Takes a sequence out, whether it was already planned or not."""
        self.preempted.add(sequence)
        self.promised_count = None
        if chunk := self.chunks.pop(sequence, None):
            self.budget_left += chunk.token_count

    def finish(self) -> StepPlan:
        return StepPlan(tuple(self.chunks.values()), self.asks_drafts)


@dataclass(slots=True)
class Sample:
    """Outcome of one chunk."""

    token_id: int | None = None
    """The new token, where the chunk samples."""
    further_ids: tuple[int, ...] = ()
    """Tokens after `token_id`, as far as the draft tokens were confirmed."""
    logprobs: tuple[TokenLogprob, ...] = ()
    """Log-probabilities of `token_id` and `further_ids`, where asked for."""
    prompt_logprobs: Iterable[TokenLogprob] = ()
    """Log-probabilities of the chunk's `scored_prompt_range`."""


NOTHING = Sample()
"""Outcome of a chunk that neither samples nor scores."""
