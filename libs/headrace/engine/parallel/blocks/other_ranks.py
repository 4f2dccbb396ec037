"""The Protocol of the other ranks of a group, as the first rank asks them for KV blocks."""

from collections.abc import Sequence
from typing import Protocol


class OtherRanks(Protocol):
    """Ranks that copy and overwrite their parts of KV blocks."""

    def request_blocks(self, blocks: Sequence[int]) -> None:
        """Tells all ranks to copy their parts of blocks. Raises InternalError if one is gone."""

    def receive_blocks(self, count: int) -> list[list[bytes]]:
        """Waits for the parts of the `count` requested blocks, one list for each rank."""
        ...

    def write(self, blocks: Sequence[int], parts: Sequence[Sequence[bytes]]) -> None:
        """Tells each rank to overwrite its parts of blocks: one list for each rank. Raises InternalError if one is
        gone."""
