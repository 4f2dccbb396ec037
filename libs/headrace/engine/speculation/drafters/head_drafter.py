"""Drafts by a head over the large model's own hidden states (EAGLE-3, Li et al., 2025).

The head's position i stands for the large model's state at token i beside the embedding of token i + 1, and says what
token i + 2 may be. It uses the large model's block numbers for its own keys and values, as a draft model does. Where
neither has computed the beginning of a text, because it came from a prefix cache, the head's context begins later: at
the first block that it can fill.
"""

import time
from array import array
from collections.abc import Mapping
from collections.abc import Sequence as Items
from dataclasses import dataclass

import numpy as np

from headrace.engine.batching.drafter import Drafts
from headrace.engine.batching.sequence import Sequence
from headrace.engine.batching.step_plan import Chunk
from headrace.engine.speculation.drafters.draft_head import DraftHead
from headrace.engine.speculation.drafters.drafting_cost import DraftingCost
from headrace.engine.speculation.drafters.filled_blocks import FilledBlocks
from headrace.engine.speculation.drafters.rest import Rest
from headrace.engine.speculation.drafters.unread_states import UnreadStates
from headrace.engine.step.auxiliary.auxiliary_states import Floats
from headrace.engine.step.sampler import Sampler
from headrace.engine.step.step_arrays import StepArrays

MAX_UNREAD = 32
"""Maximum number of states of a sequence that wait until draft tokens are wanted: memory for more would be missed."""


@dataclass(slots=True)
class _Progress:
    """Progress of the head through one sequence."""

    first_block: int
    """Blocks at the beginning of the sequence that its context lacks."""
    unread: UnreadStates
    marked_count: int = 0
    """Number of blocks recorded as full."""


@dataclass(frozen=True, slots=True)
class _Span:
    """Consecutive positions of a sequence that the head computes in one step."""

    sequence: Sequence
    start: int
    token_ids: Items[int]
    """Tokens after each position."""


class HeadDrafter:
    """Drafts for several sequences at a time. Receives the states of each step, and reads them when draft tokens are
    wanted, or when there are too many."""

    def __init__(self, head: DraftHead, sampler: Sampler, block_size: int) -> None:
        """`sampler` is the large model's."""
        self._head = head
        self._sampler = sampler
        self._block_size = block_size
        self._progress: dict[Sequence, _Progress] = {}
        self._filled = FilledBlocks(block_size)
        self._cost = DraftingCost()
        self._rest = Rest()

    def step_seconds(self, row_count: int) -> float:
        return self._cost.step_seconds(row_count)

    def seconds_to_enter(self) -> float:
        return self._cost.seconds_to_enter()

    def seconds_to_begin(self, sequence: Sequence) -> float:
        progress = self._progress.get(sequence)
        return 0.0 if progress is None else self._cost.seconds_to_read(progress.unread.end - progress.unread.start)

    def room(self, sequence: Sequence) -> int:
        """Counts the draft tokens that fit the head's context."""
        progress = self._progress.get(sequence)
        if progress is None or not progress.unread.start < sequence.context_count - 1 <= progress.unread.end:
            return 0
        return max(0, self._head.max_len - (sequence.context_count - progress.first_block * self._block_size))

    def receive(self, chunks: Items[Chunk], states: Floats) -> None:
        """Takes the states [tokens, layers x hidden] of a step's tokens, before its outcome is known."""
        if not self._rest.begin_step():
            self._progress.clear()
            return
        first, crowded = 0, []
        for chunk in chunks:
            unread = self._of(chunk).unread
            unread.put(chunk.start, states[first : first + chunk.token_count])
            first += chunk.token_count
            if unread.end - unread.start > MAX_UNREAD:
                crowded.append(chunk.sequence)
        for sequence in crowded:
            if not self._fits(sequence):
                self._progress[sequence].unread.take(self._end(sequence))
        self._read(crowded)

    def propose(self, limits: Mapping[Sequence, int]) -> Drafts:
        """Makes at most `limits` draft tokens for each sequence."""
        ready = [sequence for sequence in limits if self.room(sequence)]
        drafts: Drafts = dict.fromkeys(ready, ())
        if not ready:
            return drafts
        self._rest.note_drafts()
        texts = {sequence: sequence for sequence in ready}
        row_counts, times = [self._unread_count(ready)], [time.perf_counter()]
        states = self._read(ready)
        while states:
            for sequence, token_id in self._sample(states, texts).items():
                drafts[sequence] += (token_id,)
            times.append(time.perf_counter())
            states = {each: rows for each, rows in states.items() if len(drafts[each]) < limits[each]}
            for sequence in states:
                texts[sequence] = texts[sequence].continued((drafts[sequence][-1],))
            states = self._continue(states, drafts)
            row_counts.append(len(states))
        self._cost.measure(row_counts, times, is_constrained=any(sequence.matcher is not None for sequence in ready))
        return drafts

    def forget(self, sequence: Sequence) -> None:
        """Drops the state of a sequence that ended or lost its blocks."""
        self._progress.pop(sequence, None)

    def sleep(self) -> None:
        """Frees the memory of the KV cache. Requires that every sequence is forgotten. No drafts until `wake`."""
        self._filled.clear()
        self._head.sleep()

    def wake(self) -> None:
        self._head.wake()

    def _of(self, chunk: Chunk) -> _Progress:
        """Returns the progress through a sequence. Where states are missing before a chunk, it begins again."""
        progress = self._progress.get(chunk.sequence)
        if progress is None or progress.unread.end < chunk.start:
            is_shared = self._filled.shared_count(chunk.sequence) >= chunk.start
            first_block = 0 if is_shared else -(-chunk.start // self._block_size)
            start = chunk.start if is_shared else first_block * self._block_size
            progress = self._progress[chunk.sequence] = _Progress(first_block, UnreadStates(start))
        return progress

    def _fits(self, sequence: Sequence) -> bool:
        """Whether the head's context has room for what can be read of a sequence."""
        progress = self._progress[sequence]
        return self._end(sequence) - progress.first_block * self._block_size <= self._head.max_len

    def _end(self, sequence: Sequence) -> int:
        """Returns the position one past the last that can be read: the next token must be known."""
        progress = self._progress[sequence]
        return max(progress.unread.start, min(progress.unread.end, sequence.context_count - 1))

    def _unread_count(self, sequences: Items[Sequence]) -> int:
        return sum(self._end(sequence) - self._progress[sequence].unread.start for sequence in sequences)

    def _read(self, sequences: Items[Sequence]) -> dict[Sequence, Floats]:
        """Reads what can be read, and returns the head's last states [1, hidden]."""
        spans, parts = [], []
        for sequence in sequences:
            progress, end = self._progress[sequence], self._end(sequence)
            start = progress.unread.start
            if start < end:
                self._filled.drop(sequence, start)
                spans.append(_Span(sequence, start, sequence.context_ids(start + 1, end + 1)))
                parts.append(progress.unread.take(end))
        if not spans:
            return {}
        found = self._compute(spans, self._head.combine(np.concatenate(parts)))
        for span in spans:
            self._mark(span.sequence, span.start + len(span.token_ids))
        return found

    def _continue(self, states: Mapping[Sequence, Floats], drafts: Drafts) -> dict[Sequence, Floats]:
        """Computes the states behind the last draft token of each sequence."""
        if not states:
            return {}
        spans = [
            _Span(sequence, sequence.context_count - 2 + len(drafts[sequence]), drafts[sequence][-1:])
            for sequence in states
        ]
        return self._compute(spans, np.concatenate(list(states.values())))

    def _compute(self, spans: Items[_Span], states: Floats) -> dict[Sequence, Floats]:
        """Returns the head's state [1, hidden] at the end of each span."""
        computed = self._head.compute(self._lay_out(spans), states)
        ends = np.cumsum([len(span.token_ids) for span in spans]).tolist()
        return {span.sequence: computed[end - 1 : end] for span, end in zip(spans, ends, strict=True)}

    def _lay_out(self, spans: Items[_Span]) -> StepArrays:
        token_ids: list[int] = []
        tables, places = array("q"), array("q")
        for span in spans:
            first_block = self._progress[span.sequence].first_block
            start = span.start - first_block * self._block_size
            places.extend((len(token_ids), len(span.token_ids), start, len(tables)))
            token_ids += span.token_ids
            tables += span.sequence.block_table[first_block:]
        return StepArrays(array("q", token_ids), tables, places, array("q"))

    def _mark(self, sequence: Sequence, computed_count: int) -> None:
        """Records the blocks that are full. Those of a context that begins later have other angles, and are not
        shared."""
        progress = self._progress[sequence]
        if not progress.first_block:
            progress.marked_count = self._filled.mark(sequence, progress.marked_count, computed_count)

    def _sample(self, states: Mapping[Sequence, Floats], texts: Mapping[Sequence, Sequence]) -> dict[Sequence, int]:
        """Samples the token after each sequence, with the draw that the large model will use there."""
        logits = self._head.logits(np.concatenate(list(states.values())))
        token_ids = self._sampler.sample(logits, [texts[sequence] for sequence in states])
        return dict(zip(states, token_ids, strict=True))
