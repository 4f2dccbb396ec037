"""One numbered change of a worker's KV blocks."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BlockChange:
    """Blocks that entered and left a worker. Without any, it only carries the number of the latest change."""

    worker_id: str
    epoch: int
    """Incarnation of the worker. Each begins with no blocks."""
    model: str
    sequence_number: int
    """Number of this change, counted from one in every epoch; the number of the latest change if no block changed."""
    address: str
    """Address at which the worker lists its blocks."""
    stored_block_hashes: Sequence[bytes] = ()
    removed_block_hashes: Sequence[bytes] = ()

    @property
    def hash_count(self) -> int:
        """Number of blocks that changed."""
        return len(self.stored_block_hashes) + len(self.removed_block_hashes)
