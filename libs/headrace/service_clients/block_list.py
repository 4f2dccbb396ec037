"""The KV blocks of a worker at one moment."""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.errors import Unavailable
from headrace.v1.worker_pb2 import ListBlocksResponse


@dataclass(frozen=True, slots=True)
class BlockList:
    """All blocks that one worker held after one change."""

    worker_id: str
    epoch: int
    model: str
    sequence_number: int
    """Number of the latest change that the list includes."""
    block_hashes: list[bytes]

    @classmethod
    def joined(cls, parts: Sequence[ListBlocksResponse]) -> "BlockList":
        """Joins the parts of an answer. Raises Unavailable if they are not parts of one list."""
        facts = {(part.worker_id, part.epoch, part.model, part.sequence_number) for part in parts}
        if len(facts) != 1:
            raise Unavailable(f"the worker answered with parts of {len(facts)} lists of blocks, not of one: ask again")
        return cls(*facts.pop(), [block_hash for part in parts for block_hash in part.block_hashes])
