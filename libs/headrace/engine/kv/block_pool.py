"""The pool of KV blocks, with the prefix cache built in. Knows block numbers and hashes, no tensors and no requests.

A block is *used* while some request refers to it, else *free*. A free block keeps its content, and with it its place
in the prefix cache, until it is the least recently freed one and gets handed out again.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

from headrace.engine.contract.request import BlockEvents


class BlockPool:
    """Reference-counted blocks 0 … block_count - 1. Every operation costs O(1) per block."""

    def __init__(self, block_count: int, *, prefix_cache: bool = True) -> None:
        self.block_count = block_count
        self.no_block = block_count
        """Number that stands in a table for a block that is not needed. A cache may have a block of zeros under it."""
        self.prefix_cache = prefix_cache
        self.on_forget: Callable[[bytes], None] | None = None
        """Function that receives the hash of each block that leaves the prefix cache. None: there is none."""
        self._reference_counts = [0] * block_count
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(block_count))
        """Free blocks in the order of reuse."""
        self._hashes: dict[int, bytes] = {}
        self._blocks: dict[bytes, int] = {}
        self._stored: dict[bytes, None] = {}
        self._removed: dict[bytes, None] = {}

    @property
    def free_count(self) -> int:
        return len(self._free)

    @property
    def used_count(self) -> int:
        return self.block_count - len(self._free)

    def allocate(self, count: int) -> list[int]:
        """Takes the `count` least recently freed blocks, which drop out of the prefix cache."""
        if count > self.free_count:
            raise ValueError(f"{count} blocks wanted, {self.free_count} free")
        blocks = [self._free.popitem(last=False)[0] for _ in range(count)]
        for block in blocks:
            self._reference_counts[block] = 1
            self._forget(block)
        return blocks

    def find(self, hashes: Sequence[bytes]) -> list[int]:
        """The blocks of the longest cached prefix of `hashes`. They stay as they are: see `share`."""
        blocks: list[int] = []
        for block_hash in hashes:
            block = self._blocks.get(block_hash)
            if block is None:
                break
            blocks.append(block)
        return blocks

    def find_seen(self, hashes: Sequence[bytes], first_seen: Callable[[int], int]) -> list[int]:
        """Finds the longest cached prefix where only its last blocks are needed: those from `first_seen(n)` on for n
        blocks. `no_block` stands for the others."""
        count, last_missing = 0, -1
        for index, block_hash in enumerate(hashes):
            if block_hash not in self._blocks:
                last_missing = index
            if last_missing < first_seen(index + 1):
                count = index + 1
        first = first_seen(count)
        return [self.no_block] * first + [self._blocks[block_hash] for block_hash in hashes[first:count]]

    def count_free(self, blocks: Iterable[int]) -> int:
        """Counts the members of `blocks` without references."""
        return sum(self._reference_counts[block] == 0 for block in blocks)

    def share(self, blocks: Iterable[int]) -> None:
        """Adds a reference to each of `blocks`."""
        for block in blocks:
            if self._reference_counts[block] == 0:
                del self._free[block]
            self._reference_counts[block] += 1

    def publish(self, block: int, block_hash: bytes) -> None:
        """Makes a full block, whose content is computed, findable by its hash.

        A second block with the same content stays private: block tables only ever grow at their end.
        """
        if not self.prefix_cache or block in self._hashes or block_hash in self._blocks:
            return
        self._hashes[block] = block_hash
        self._blocks[block_hash] = block
        if block_hash in self._removed:
            del self._removed[block_hash]
        else:
            self._stored[block_hash] = None

    def release(self, blocks: Sequence[int]) -> None:
        """Drops a reference from each block of a table, tail first, so that the shared head lives longest.

        Blocks that no prefix search can find are the first to be reused.
        """
        for block in reversed(blocks):
            self._reference_counts[block] -= 1
            if self._reference_counts[block] == 0:
                self._free[block] = None
                if block not in self._hashes:
                    self._free.move_to_end(block, last=False)

    def forget(self, blocks: Iterable[int]) -> None:
        """Takes blocks out of the prefix cache, because their content is not to be trusted."""
        for block in blocks:
            self._forget(block)

    def forget_all(self) -> None:
        """Takes every block out of the prefix cache."""
        self.forget(list(self._hashes))

    def drain_events(self) -> BlockEvents:
        """Returns what changed in the prefix cache since the last call. Blocks that came and went in between are not
        reported."""
        events = BlockEvents(stored=tuple(self._stored), removed=tuple(self._removed))
        self._stored.clear()
        self._removed.clear()
        return events

    def check_invariants(self, tables: Iterable[Sequence[int]]) -> None:
        """Raises AssertionError unless the counts agree with `tables`, the block tables of all live requests."""
        expected = [0] * self.block_count
        for table in tables:
            if len(set(table)) != len(table):
                raise AssertionError(f"a block occurs twice in one table: {table}")
            for block in table:
                expected[block] += 1
        if expected != self._reference_counts:
            raise AssertionError(f"reference counts {self._reference_counts} but tables hold {expected}")
        if set(self._free) != {block for block, count in enumerate(expected) if count == 0}:
            raise AssertionError("the free list is not the set of unreferenced blocks")
        if self._blocks != {block_hash: block for block, block_hash in self._hashes.items()}:
            raise AssertionError("the two directions of the prefix cache disagree")

    def _forget(self, block: int) -> None:
        block_hash = self._hashes.pop(block, None)
        if block_hash is None:
            return
        del self._blocks[block_hash]
        if self.on_forget is not None:
            self.on_forget(block_hash)
        if block_hash in self._stored:
            del self._stored[block_hash]
        else:
            self._removed[block_hash] = None
