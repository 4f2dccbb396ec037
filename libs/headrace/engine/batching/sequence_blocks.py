"""The KV blocks of sequences: who gets how many, and what the prefix cache has of their beginnings."""

import math
from collections.abc import Iterable

from headrace.engine.batching.sequence import Sequence, make_block_table
from headrace.engine.batching.sequence_states import SequenceStates
from headrace.engine.batching.step_plan import Chunk
from headrace.engine.contract.block_need import BlockNeed
from headrace.engine.contract.engine import EngineSpec
from headrace.engine.kv.block_pool import BlockPool

WATERMARK = 0.01
"""Share of the blocks that admission leaves free, so that new sequences do not push out running ones at once."""


class SequenceBlocks:
    """Gives blocks of one pool to sequences and takes them back. Knows no queue and no order."""

    def __init__(self, spec: EngineSpec, pool: BlockPool) -> None:
        self._pool = pool
        self._states = SequenceStates.of(spec, pool)
        self._size = spec.block_size
        self._need = BlockNeed.of(spec)
        self._watermark = math.ceil(spec.block_count * WATERMARK)

    @property
    def longest_chunk(self) -> int:
        """Maximum number of tokens of one sequence in one step."""
        return self._need.longest_chunk

    def capacity(self, sequence: Sequence) -> int:
        """Counts the tokens that a sequence could have in the blocks that it holds and in the free ones that are not
        reserved."""
        return (len(sequence.block_table) + max(0, self._pool.free_count - self._watermark)) * self._size

    def grow(self, sequence: Sequence, token_count: int) -> bool:
        """Extends the block table to hold `token_count` tokens, if there are blocks."""
        if token_count > len(sequence.block_table) * self._size:
            missing = self._need.count(token_count) - len(sequence.block_table)
            if missing > self._pool.free_count:
                return False
            sequence.block_table.extend(self._pool.allocate(missing))
        if self._states is not None:
            self._states.prepare(sequence, token_count)
        return True

    def prepare_drafts(self, chunk: Chunk, end: int) -> bool:
        """Extends the block table for draft tokens after a chunk up to `end`. Returns whether a step may have them."""
        self.grow(chunk.sequence, end)
        return self._states is None or self._states.prepare_drafts(chunk, end)

    def drop_drafts(self, sequence: Sequence) -> None:
        """Takes back what `prepare_drafts` kept for draft tokens that there are none of."""
        if self._states is not None:
            self._states.drop_drafts(sequence)

    def settle(self, chunk: Chunk, right_count: int) -> int:
        """Returns the number of tokens that a sequence need not compute again after a step in which so many of the
        draft tokens were right."""
        return chunk.end + right_count if self._states is None else self._states.settle(chunk, right_count)

    def free(self, sequence: Sequence) -> None:
        """Frees all blocks of a sequence: none of its tokens is computed any more."""
        self._pool.release(sequence.held_blocks)
        if self._states is not None:
            self._states.free(sequence)
        sequence.block_table = make_block_table()
        sequence.first_block = 0
        sequence.computed_count = 0

    def free_unseen(self, sequence: Sequence) -> None:
        """Frees the blocks that no layer will see again. They can be found until they are reused."""
        first, end = sequence.first_block, self._need.first_seen(sequence.computed_count)
        if self._need.window is not None and end > first:
            self._pool.release(sequence.block_table[first:end])
            sequence.block_table[first:end] = make_block_table([self._pool.no_block]) * (end - first)
            sequence.first_block = end

    def lacking(self, sequence: Sequence) -> int:
        """Counts the blocks that a running sequence's tokens will need besides the ones it holds."""
        most = self._need.most(sequence.context_count, sequence.computed_count)
        return max(0, most - sequence.held_count)

    def shortage(self, sequence: Sequence, cached: Iterable[int], promised_count: int) -> int:
        """Counts the blocks that are missing for all tokens of a new sequence, whose first ones are `cached`. Zero or
        less: none. `promised_count` blocks are for sequences that run.
        """
        found = self._found(cached)
        missing = self._need.most(sequence.context_count, sequence.computed_count) - len(found)
        return missing + self._watermark + promised_count + self._pool.count_free(found) - self._pool.free_count

    def find_cached(self, sequence: Sequence) -> list[int]:
        """Finds the cached blocks of the sequence's beginning, as far as what follows sees them. At least one token is
        left over: its logits are needed."""
        if not self._pool.prefix_cache or sequence.wants_prompt_logprobs:
            return []
        sequence.hash_blocks(sequence.context_count, self._size)
        hashes = sequence.block_hashes[: (sequence.context_count - 1) // self._size]
        if self._need.window is None:
            found = self._pool.find(hashes)
            if self._states is None:
                return found
            sequence.shared_block_count = len(found)
            return found[: self._states.count_continuable(hashes[: len(found)])]
        return self._pool.find_seen(hashes, lambda count: self._need.first_seen(count * self._size))

    def begin(self, sequence: Sequence, cached: list[int]) -> None:
        """Lets a new sequence begin with cached blocks."""
        found = self._found(cached)
        self._pool.share(found)
        sequence.block_table = make_block_table(cached)
        sequence.first_block = len(cached) - len(found)
        if self._states is not None:
            self._states.begin(sequence, len(cached))

    def publish(self, sequence: Sequence, start: int) -> None:
        """Makes the blocks findable that were completed since `start` tokens were computed. Only now: their content
        exists."""
        first, end = start // self._size, sequence.computed_count // self._size
        if end > first and self._pool.prefix_cache:
            sequence.hash_blocks(sequence.computed_count, self._size)
            for index in range(first, end):
                self._pool.publish(sequence.block_table[index], sequence.block_hashes[index])
            if self._states is not None:
                self._states.publish(sequence)

    def check_states(self, sequences: Iterable[Sequence]) -> None:
        """Raises AssertionError if a slot of a state has no owner, or two. `sequences` are all that there are."""
        if self._states is not None:
            self._states.check_invariants(sequences)

    def check_invariants(self, sequence: Sequence) -> None:
        """Raises AssertionError if a running sequence's table is wrong."""
        if any(block != self._pool.no_block for block in sequence.block_table[: sequence.first_block]):
            raise AssertionError(f"{sequence.request_id} still names blocks that it gave back")
        if len(sequence.block_table) * self._size < sequence.computed_count:
            raise AssertionError(f"{sequence.request_id} has more tokens than its blocks can hold")

    def _found(self, cached: Iterable[int]) -> list[int]:
        """Returns those at the end of `cached` that really exist: earlier ones are out of the window."""
        return [block for block in cached if block != self._pool.no_block]
