"""Drafts by a small model with the same vocabulary (Leviathan et al., 2023; Chen et al., 2023).

It uses the large model's block numbers for its own KV cache. So rollback, prefix sharing and preemption need no work
here except tracking which blocks are up to date. It samples with the draw that the large model will use at the same
position (see `sampling/uniform.py`), so that the two agree as often as they can.
"""

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from headrace.engine.batching.drafter import Drafts
from headrace.engine.batching.sequence import Sequence
from headrace.engine.batching.step_plan import Chunk, StepPlan
from headrace.engine.speculation.step_cost import WINDOW, StepCost
from headrace.engine.step.sampler import Sampler
from headrace.engine.step.step_logits import StepLogits

FEW = 3
"""First steps that must have been measured before they are taken to be longer than others."""
MAX_MEASURED = 48
"""Rows of the longest first step whose time says something about others: longer ones read texts."""


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
        self._contents: dict[int, bytes] = {}
        """Hashes of the content of each full block in the draft model's cache."""
        self._costs = {False: StepCost(step_seconds), True: StepCost(step_seconds)}
        """Seconds of a step, without and with a grammar, which takes longer."""
        self._entries: deque[float] = deque(maxlen=WINDOW)
        """Seconds that the latest first steps took longer than others."""
        self._is_constrained = False
        """Whether some sequence of the last call had a grammar."""

    def step_seconds(self, row_count: int) -> float:
        """Returns the seconds in which `row_count` sequences get one draft token each. 0 if no step was measured yet,
        so that there will be one."""
        cost = self._costs[self._is_constrained and self._costs[True].is_known]
        return cost(row_count) if cost.is_known else 0.0

    def seconds_to_enter(self) -> float:
        """Returns the seconds that the first step of each call takes longer than the others: the large model has had
        the caches in between."""
        return max(0.0, sorted(self._entries)[1]) if len(self._entries) >= FEW else 0.0

    def seconds_to_begin(self, sequence: Sequence) -> float:
        """Returns the seconds of reading before the first draft token that are not part of every step."""
        progress = self._progress.get(sequence)
        unread_count = sequence.context_count - (0 if progress is None else progress.computed_count)
        cost = self._costs[False]
        return cost(unread_count) - cost(1) if cost.is_known and unread_count > 1 else 0.0

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
            self._measure(ready, row_counts, times)
        return drafts

    def forget(self, sequence: Sequence) -> None:
        """Drops the state of a sequence that ended or lost its blocks."""
        self._progress.pop(sequence, None)
        self._foreign.pop(sequence, None)

    def sleep(self) -> None:
        """Frees the memory of the KV cache. Requires that every sequence is forgotten. No drafts until `wake`."""
        self._contents.clear()
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
            progress = self._progress[sequence] = _Progress(self._shared_count(sequence))
        else:
            self._confirm(sequence, progress)
        self._mark(sequence, progress)
        start = progress.computed_count
        if sequence.context_count - start <= self._max_step:
            return True
        chunk = Chunk(sequence, start, start + self._max_step)
        self._runner.run(StepPlan((chunk,)))
        progress.computed_count = chunk.end
        return False

    def _shared_count(self, sequence: Sequence) -> int:
        """Returns the number of leading tokens whose blocks the draft model has filled for another sequence."""
        count = 0
        full = (sequence.context_count - 1) // self._block_size
        for block, block_hash in zip(sequence.block_table[:full], sequence.block_hashes, strict=False):
            if self._contents.get(block) != block_hash:
                break
            count += self._block_size
        return count

    @staticmethod
    def _confirm(sequence: Sequence, progress: _Progress) -> None:
        """Counts drafted tokens that turned out right as computed. The last draft was never read."""
        chosen = sequence.context_ids(progress.computed_count, sequence.context_count)
        for drafted, token_id in zip(progress.drafts[:-1], chosen, strict=False):
            if drafted != token_id:
                break
            progress.computed_count += 1
        progress.drafts = ()

    def _mark(self, sequence: Sequence, progress: _Progress) -> None:
        """Records the content of full blocks, and drops the records of blocks about to be written."""
        full = min(progress.computed_count // self._block_size, len(sequence.block_hashes))
        for index in range(progress.marked_count, full):
            self._contents[sequence.block_table[index]] = sequence.block_hashes[index]
        progress.marked_count = full
        for block in sequence.block_table[progress.computed_count // self._block_size :]:
            self._contents.pop(block, None)

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

    def _measure(self, sequences: list[Sequence], row_counts: list[int], times: list[float]) -> None:
        """Measures the draft model. `times` are the start of drafting and the end of each step."""
        self._is_constrained = any(sequence.matcher is not None for sequence in sequences)
        cost = self._costs[self._is_constrained]
        if not cost.is_known:
            cost.observe(row_counts[0], times[1] - times[0])
        elif row_counts[0] <= MAX_MEASURED:
            self._entries.append(times[1] - times[0] - cost(row_counts[0]))
        for row_count, begin, end in zip(row_counts[1:], times[1:], times[2:], strict=False):
            cost.observe(row_count, end - begin)


def _extended(text: Sequence, original: Sequence, token_id: int) -> Sequence:
    """Returns `text` with one more token. Modifies `text` in place unless it is the original."""
    if text is original:
        return text.continued((token_id,))
    text.token_ids.append(token_id)
    return text


def _last_token(text: Sequence) -> Chunk:
    return Chunk(text, text.context_count - 1, text.context_count)
