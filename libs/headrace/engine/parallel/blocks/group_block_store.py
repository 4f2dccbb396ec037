"""The KV blocks of a group, at its first rank."""

from collections.abc import Sequence
from itertools import accumulate, pairwise

from headrace.engine.kv.block_store import BlockStore
from headrace.engine.parallel.blocks.block_part import BlockPart
from headrace.engine.parallel.blocks.other_ranks import OtherRanks
from headrace.engine.parallel.shards.place import ShardPlace


class GroupBlockStore:
    """Implements the Protocol of `block_store.py`: a block's content is that of each rank, one after the other. Ranks
    read and write their parts at the same time. Only groups of the same counts have the same layout: sums over ranks
    round in the order of shares."""

    def __init__(self, own: BlockStore, others: OtherRanks, place: ShardPlace, parts: Sequence[BlockPart]) -> None:
        """`own`: the blocks of this rank. `parts`: what each rank has of a block, this one first."""
        self._own = own
        self._others = others
        self._place = place
        self._parts = tuple(parts)
        self._cuts = [slice(*ends) for ends in pairwise(accumulate((part.byte_count for part in parts), initial=0))]

    @property
    def layout(self) -> str:
        """Shape and number format of a block, see BlockStore."""
        counts = f"{self._place.tensor_count} x {self._place.stage_count} ranks"
        return ": ".join((counts, " + ".join(part.layout for part in self._parts)))

    @property
    def block_bytes(self) -> int:
        """Size of the content of a block, in bytes."""
        return sum(part.byte_count for part in self._parts)

    def read(self, blocks: Sequence[int]) -> list[bytes]:
        """Copies the contents of blocks. Raises InternalError if a rank is gone."""
        self._others.request_blocks(blocks)
        parts = [self._own.read(blocks), *self._others.receive_blocks(len(blocks))]
        return [b"".join(content) for content in zip(*parts, strict=True)]

    def write(self, blocks: Sequence[int], contents: Sequence[bytes]) -> None:
        """Overwrites the contents of blocks, each of `block_bytes`. Raises InternalError if a rank is gone."""
        own, *others = ([content[cut] for content in contents] for cut in self._cuts)
        self._others.write(blocks, others)
        self._own.write(blocks, own)
