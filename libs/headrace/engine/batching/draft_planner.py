"""Draft tokens of a step: which sequences get some, and how many."""

from collections.abc import Collection, Mapping

from headrace.engine.batching.drafter import Drafter
from headrace.engine.batching.sequence import Sequence
from headrace.engine.batching.sequence_blocks import SequenceBlocks
from headrace.engine.batching.step_plan import Chunk, PlanBuilder

MAX_DRAFT_TOKENS = 8
"""Maximum number of draft tokens for one sequence in one step."""


class DraftPlanner:
    """Adds draft tokens to planned decodes where they fit and may be worth their rows."""

    def __init__(self, drafter: Drafter, blocks: SequenceBlocks) -> None:
        self.drafter = drafter
        self._blocks = blocks

    def add_drafts(self, builder: PlanBuilder, row_count: int) -> None:
        """Extends decodes of a plan that has `row_count` tokens by now. They never preempt a sequence."""
        decodes = [chunk for chunk in builder.chunks.values() if chunk.is_sampled and not chunk.sequence.is_reading]
        if not decodes or not self.drafter.may_pay(row_count, len(decodes)):
            return
        limits: dict[Sequence, int] = {}
        for chunk in decodes:
            if self.drafter.may_draft(chunk.sequence):
                limit = self._room(chunk, builder.budget_left // len(builder.chunks))
                if limit > 0 and self._blocks.prepare_drafts(chunk, chunk.end + limit):
                    limits[chunk.sequence] = limit
        if limits:
            builder.asks_drafts = True
            self._propose(limits, builder)

    def may_draft(self, row_count: int, sequences: Collection[Sequence]) -> bool:
        """Whether a step of so many rows, with one for each of the sequences, could have draft tokens."""
        if not sequences or not self.drafter.may_pay(row_count, len(sequences)):
            return False
        return sum(self.drafter.may_draft(sequence) for sequence in sequences) > 0

    def _propose(self, limits: Mapping[Sequence, int], builder: PlanBuilder) -> None:
        drafts = self.drafter.propose(limits)
        for sequence in limits:
            if drafts.get(sequence):
                builder.add_draft(sequence, drafts[sequence])
            else:
                self._blocks.drop_drafts(sequence)

    def _room(self, chunk: Chunk, budget: int) -> int:
        """Counts the draft tokens after `chunk` that could be wanted and have KV slots."""
        sequence = chunk.sequence
        wanted = sequence.longest_count - len(sequence.token_ids) - 1
        context = sequence.max_model_length - 1 - chunk.end
        room = self._blocks.capacity(sequence) - chunk.end
        return min(MAX_DRAFT_TOKENS, budget, wanted, context, room)
