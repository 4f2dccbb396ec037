"""Claim on cached KV blocks."""

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class BlockLease:
    """Consecutive KV blocks of the prefix cache that are not reused while the lease holds."""

    hashes: tuple[bytes, ...]
    """Chained hashes of the blocks, in order."""
    blocks: tuple[int, ...]
    """Numbers of the blocks, in the same order."""
    is_held: bool = True
    """Whether the lease still holds. Requests that need the memory end it at any time."""

    def __len__(self) -> int:
        return len(self.blocks)
