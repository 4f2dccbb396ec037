"""The states of sequences: who has which slot, where a text may begin, and which snapshots are taken."""

from collections.abc import Iterable
from collections.abc import Sequence as Several
from typing import Self

from headrace.engine.batching.sequence import Sequence
from headrace.engine.batching.step_plan import Chunk
from headrace.engine.contract.engine import EngineSpec
from headrace.engine.kv.block_pool import BlockPool
from headrace.engine.kv.sequence_state import MAX_CAPTURES, DraftSlots, SequenceState
from headrace.engine.kv.state_pool import StatePool


class SequenceStates:
    """Gives slots of one pool to sequences and takes them back. Blocks can be continued where they have a snapshot."""

    def __init__(self, pool: StatePool, blocks: BlockPool, block_size: int) -> None:
        self._pool = pool
        self._blocks = blocks
        self._size = block_size

    @classmethod
    def of(cls, spec: EngineSpec, blocks: BlockPool) -> Self | None:
        """Makes the states of a model, whose snapshots leave with their blocks. None: it keeps no states."""
        if spec.snapshot_count is None:
            return None
        pool = StatePool(spec.max_running_count, spec.snapshot_count)
        blocks.on_forget = pool.forget
        return cls(pool, blocks, spec.block_size)

    def count_continuable(self, hashes: Several[bytes]) -> int:
        """Counts the blocks, of those named by `hashes` in order, up to the last that has a snapshot."""
        return self._pool.count_found(hashes)

    def begin(self, sequence: Sequence, block_count: int) -> None:
        """Lets a new sequence begin with so many cached blocks, and the snapshot behind the last one."""
        state = sequence.state = SequenceState(self._pool.take(), block_count * self._size)
        if block_count:
            state.origin_slot = self._pool.pin(sequence.block_hashes[block_count - 1])

    def prepare(self, sequence: Sequence, end: int) -> None:
        """Reserves the slots for a step that computes the tokens of a sequence up to `end`."""
        start, state = sequence.computed_count, sequence.state
        if state is None:
            state = sequence.state = SequenceState(self._pool.take())
        if start > state.origin_count:
            self._let_go_of_origin(state)
        for wanted in self._snapshot_counts(sequence, end):
            if start < wanted <= end and wanted not in state.captures:
                slot = self._pool.reserve()
                if slot is not None:
                    state.captures[wanted] = slot

    def prepare_drafts(self, chunk: Chunk, end: int) -> bool:
        """Reserves the slots for a step that computes a chunk and draft tokens up to `end`. Returns whether there are
        any. Two states are kept, behind the chunk and behind the draft tokens, and one snapshot may be due beside."""
        state = chunk.sequence.state
        if state is None:
            return False
        due = state.due_captures(chunk.start, end)
        if len(due) >= MAX_CAPTURES or chunk.end in due:
            return False
        known, drafted = self._pool.reserve(), self._pool.reserve()
        if known is None or drafted is None:
            for slot in (known, drafted):
                if slot is not None:
                    self._pool.give_back(slot)
            return False
        state.drafts = DraftSlots(known, drafted)
        return True

    def drop_drafts(self, sequence: Sequence) -> None:
        """Gives the slots for draft tokens back."""
        state = sequence.state
        if state is not None and state.drafts is not None:
            for slot in state.drafts:
                self._pool.give_back(slot)
            state.drafts = None

    def settle(self, chunk: Chunk, right_count: int) -> int:
        """Keeps the state behind the tokens that were right after a step in which so many draft tokens were. Returns
        the number of tokens that it stands behind: all of these, or where a draft token was wrong, those before the
        draft."""
        state = chunk.sequence.state
        if state is None or state.drafts is None:
            if state is not None:
                state.retraces = False
            return chunk.end + right_count
        are_all_right = right_count == len(chunk.draft)
        behind, state.slot = state.slot, state.drafts.drafted if are_all_right else state.drafts.known
        for slot in (behind, *state.drafts):
            if slot != state.slot:
                self._pool.give_back(slot)
        state.drafts = None
        state.retraces = not are_all_right and right_count > 0
        return chunk.end + right_count if are_all_right else chunk.end

    def publish(self, sequence: Sequence) -> None:
        """Makes the snapshots findable that were taken of computed tokens. Their blocks are published."""
        state = sequence.state
        if state is None:
            return
        for count in [count for count in state.captures if count <= sequence.computed_count]:
            slot, block_hash = state.captures.pop(count), sequence.block_hashes[count // self._size - 1]
            if not self._blocks.find([block_hash]):
                self._pool.give_back(slot)
                continue
            self._pool.keep(block_hash, slot)
            if count > sequence.prompt_count:
                self._pool.supersede(state.last_snapshot)
                state.last_snapshot = block_hash

    def free(self, sequence: Sequence) -> None:
        """Takes all slots of a sequence back."""
        state, sequence.state = sequence.state, None
        if state is not None:
            self._let_go_of_origin(state)
            self._pool.leave(state.slot)
            for slot in (*state.captures.values(), *(state.drafts or ())):
                self._pool.give_back(slot)

    def check_invariants(self, sequences: Iterable[Sequence]) -> None:
        """Raises AssertionError if a slot has no owner, or two. `sequences` are all that there are."""
        self._pool.check_invariants([sequence.state for sequence in sequences if sequence.state is not None])

    def _let_go_of_origin(self, state: SequenceState) -> None:
        if state.origin_slot is not None:
            self._pool.unpin(state.origin_slot)
            state.origin_slot = None

    def _snapshot_counts(self, sequence: Sequence, end: int) -> set[int]:
        """Returns the numbers of tokens behind which a step up to `end` takes snapshots: behind the blocks that other
        texts begin with too, and behind the last whole block that leaves a token of the prompt to compute."""
        if not self._blocks.prefix_cache:
            return set()
        last = end - 1 if sequence.computed_count < sequence.prompt_count <= end else end
        return {sequence.shared_block_count * self._size, last // self._size * self._size}
