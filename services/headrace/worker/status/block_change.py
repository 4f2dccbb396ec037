"""One numbered change of a worker's prefix cache."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BlockChange:
    """Blocks that entered and left, few enough for one message. Without any, it only tells the latest number."""

    worker_id: str
    epoch: int
    model: str
    sequence_number: int
    """Number of this change, counted from one in every epoch; of the latest change where no block changed."""
    stored_block_hashes: Sequence[bytes] = ()
    removed_block_hashes: Sequence[bytes] = ()
