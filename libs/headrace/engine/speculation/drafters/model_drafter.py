"""Drafts by a small model with the same vocabulary (Leviathan et al., 2023; Chen et al., 2023).

It uses the large model's block numbers for its own KV cache. So rollback, prefix sharing and preemption need no work
here except tracking which blocks are up to date. It samples with the draw that the large model will use at the same
position (see `sampling/uniform.py`), so that the two agree as often as they can.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from headrace.engine.batching.drafter import Drafts
from headrace.engine.batching.sequence import Sequence
from headrace.engine.batching.step_plan import Chunk, StepPlan
from headrace.engine.speculation.drafters.drafting_cost import DraftingCost
from headrace.engine.speculation.drafters.filled_blocks import FilledBlocks
from headrace.engine.step.sampler import Sampler
from headrace.engine.step.step_logits import StepLogits


class DraftRunner(Protocol):
    @property
    def sampler(self) -> Sampler: ...

    def run(self, plan: StepPlan) -> StepLogits: ...

    def sleep(self) -> None: ...

    def wake(self) -> None: ...


@dataclass(slots=True)
class _Progress:
    """Progress of the draft model through one sequence."""

    computed_count: int
    """Number of tokens with keys and values in the draft model's cache."""
    marked_count: int = 0
    """Number of blocks recorded as full."""
    drafts: tuple[int, ...] = ()
    """Drafts after the computed tokens. The draft model has read all but the last one. They may turn out wrong."""


@dataclass(slots=True)
class _Scan:
    """Progress of the search through one sequence for ids that the draft model does not know."""

    count: int = 0
    found: bool = False


class ModelDrafter:
    """Drafts for several sequences at a time."""

    def __init__(
        self,
        runner: DraftRunner,
        vocabulary_size: int,
        max_len: int,
        block_size: int,
        max_step: int,
        draft_vocabulary_size: int | None = None,
        step_seconds: Mapping[int, float] | None = None,
    ) -> None:
        """`vocabulary_size` is the large model's, `draft_vocabulary_size` the draft model's if different. `max_step` is
        the maximum number of tokens to read in one call. `step_seconds` has the seconds of its steps by row count, as
        measured at load."""
        self._runner = runner
        self._vocabulary_size = vocabulary_size
        self._draft_vocabulary_size = vocabulary_size if draft_vocabulary_size is None else draft_vocabulary_size
        self._foreign: dict[Sequence, _Scan] = {}
        self._max_len = max_len
        self._block_size = block_size
        self._max_step = max_step
        self._progress: dict[Sequence, _Progress] = {}
        self._filled = FilledBlocks(block_size)
        self._cost = DraftingCost(step_seconds)

    def step_seconds(self, row_count: int) -> float:
        """Returns the seconds in which `row_count` sequences get one draft token each. 0 if no step was measured yet,
        so that there will be one."""
        return self._cost.step_seconds(row_count)

    def seconds_to_enter(self) -> float:
        """Returns the seconds that the first step of each call takes longer than the others: the large model has had
        the caches in between."""
        return self._cost.seconds_to_enter()

    def seconds_to_begin(self, sequence: Sequence) -> float:
        """Returns the seconds of reading before the first draft token that are not part of every step."""
        progress = self._progress.get(sequence)
        return self._cost.seconds_to_read(sequence.context_count - (0 if progress is None else progress.computed_count))

    def room(self, sequence: Sequence) -> int:
        """Counts the drafts that fit the draft model's context. 0 after a token that its embedding lacks."""
        return 0 if self._is_foreign(sequence) else max(0, self._max_len - sequence.context_count)

    def propose(self, limits: Mapping[Sequence, int]) -> Drafts:
        """Makes at most `limits` drafts for each sequence. Skips sequences that it has not read to the end yet."""
        ready = [sequence for sequence in limits if self._catch_up(sequence)]
        drafts: Drafts = dict.fromkeys(ready, ())
        texts = {sequence: sequence for sequence in ready}
        chunks = {sequence: self._unread(sequence) for sequence in ready}
        row_counts = [sum(chunk.token_count for chunk in chunks.values())]
        times = [time.perf_counter()]
        while chunks:
            for sequence, token_id in self._sample(chunks).items():
                drafts[sequence] += (token_id,)
            unfinished = [sequence for sequence in chunks if len(drafts[sequence]) < limits[sequence]]
            for sequence in unfinished:
                texts[sequence] = _extended(texts[sequence], sequence, drafts[sequence][-1])
            chunks = {sequence: _last_token(texts[sequence]) for sequence in unfinished}
            row_counts.append(len(chunks))
            times.append(time.perf_counter())
        for sequence in ready:
            progress = self._progress[sequence]
            progress.computed_count, progress.drafts = sequence.context_count, drafts[sequence]
        if ready:
            is_constrained = any(sequence.matcher is not None for sequence in ready)
            self._cost.measure(row_counts, times, is_constrained=is_constrained)
        return drafts

    def forget(self, sequence: Sequence) -> None:
        """Drops the state of a sequence that ended or lost its blocks."""
        self._progress.pop(sequence, None)
        self._foreign.pop(sequence, None)

    def sleep(self) -> None:
        """Frees the memory of the KV cache. Requires that every sequence is forgotten. No drafts until `wake`."""
        self._filled.clear()
        self._runner.sleep()

    def wake(self) -> None:
        self._runner.wake()

    def _is_foreign(self, sequence: Sequence) -> bool:
        """Whether a sequence has a token id beyond the draft model's vocabulary, as padded models may."""
        if self._draft_vocabulary_size >= self._vocabulary_size:
            return False
        scan = self._foreign.setdefault(sequence, _Scan())
        unseen = sequence.token_ids[scan.count :]
        scan.found = scan.found or any(token_id >= self._draft_vocabulary_size for token_id in unseen)
        scan.count = len(sequence.token_ids)
        return scan.found

    def _catch_up(self, sequence: Sequence) -> bool:
        """Reads the missing tokens, at most one step's worth. Returns True if drafts can follow."""
        progress = self._progress.get(sequence)
        if progress is None:
            progress = self._progress[sequence] = _Progress(self._filled.shared_count(sequence))
        else:
            self._confirm(sequence, progress)
        progress.marked_count = self._filled.mark(sequence, progress.marked_count, progress.computed_count)
        self._filled.drop(sequence, progress.computed_count)
        start = progress.computed_count
        if sequence.context_count - start <= self._max_step:
            return True
        chunk = Chunk(sequence, start, start + self._max_step)
        self._runner.run(StepPlan((chunk,)))
        progress.computed_count = chunk.end
        return False

    @staticmethod
    def _confirm(sequence: Sequence, progress: _Progress) -> None:
        """Counts drafted tokens that turned out right as computed. The last draft was never read."""
        chosen = sequence.context_ids(progress.computed_count, sequence.context_count)
        for drafted, token_id in zip(progress.drafts[:-1], chosen, strict=False):
            if drafted != token_id:
                break
            progress.computed_count += 1
        progress.drafts = ()

    def _unread(self, sequence: Sequence) -> Chunk:
        return Chunk(sequence, self._progress[sequence].computed_count, sequence.context_count)

    def _sample(self, chunks: Mapping[Sequence, Chunk]) -> dict[Sequence, int]:
        """Samples the next token of each chunk, using the draw that the large model will use there."""
        logits = self._runner.run(StepPlan(tuple(chunks.values())))
        texts = [chunk.sequence for chunk in logits.sampling]
        sampler = self._runner.sampler
        values = sampler.fit(logits.values, self._vocabulary_size)
        token_ids = dict(zip(texts, sampler.sample(values, texts), strict=True))
        return {
            sequence: min(token_ids[chunk.sequence], self._vocabulary_size - 1) for sequence, chunk in chunks.items()
        }


def _extended(text: Sequence, original: Sequence, token_id: int) -> Sequence:
    """Returns `text` with one more token. Modifies `text` in place unless it is the original."""
    if text is original:
        return text.continued((token_id,))
    text.token_ids.append(token_id)
    return text


def _last_token(text: Sequence) -> Chunk:
    return Chunk(text, text.context_count - 1, text.context_count)
