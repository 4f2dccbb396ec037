"""The Protocol of places that KV blocks are written to behind the engine."""

from collections.abc import Sequence
from typing import Protocol


class BlockSink(Protocol):
    """Place that keeps KV blocks: a disk, or a store that workers share. `wanted` and `write` may raise HeadraceError,
    TimeoutError and OSError: the blocks in question are then not kept."""

    @property
    def name(self) -> str:
        """Name in logs."""

    async def wanted(self, names: Sequence[bytes]) -> list[bytes]:
        """Returns the blocks that the place lacks and would keep, in their order."""

    async def write(self, blocks: Sequence[tuple[bytes, bytes]]) -> None:
        """Keeps blocks, each a name and its content."""

    def note_lost(self, count: int) -> None:
        """Counts blocks that did not get their turn."""
