"""KV blocks that a model which drafts has filled, under the large model's numbers."""

from headrace.engine.batching.sequence import Sequence


class FilledBlocks:
    """Contents of full blocks, by the hashes of the text that they stand for."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._contents: dict[int, bytes] = {}

    def shared_count(self, sequence: Sequence) -> int:
        """Returns the number of leading tokens of a sequence whose blocks are filled."""
        count = 0
        full = (sequence.context_count - 1) // self._block_size
        for block, block_hash in zip(sequence.block_table[:full], sequence.block_hashes, strict=False):
            if self._contents.get(block) != block_hash:
                break
            count += self._block_size
        return count

    def mark(self, sequence: Sequence, first: int, computed_count: int) -> int:
        """Records the full blocks from number `first` on of a sequence of which so many tokens are computed. Returns
        the number of full blocks."""
        full = min(computed_count // self._block_size, len(sequence.block_hashes))
        for index in range(first, full):
            self._contents[sequence.block_table[index]] = sequence.block_hashes[index]
        return full

    def drop(self, sequence: Sequence, computed_count: int) -> None:
        """Drops the records of the blocks behind so many tokens, which are about to be written."""
        for block in sequence.block_table[computed_count // self._block_size :]:
            self._contents.pop(block, None)

    def clear(self) -> None:
        self._contents.clear()
