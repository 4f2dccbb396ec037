"""The Protocol of a KV cache whose blocks can be read and written as bytes."""

from collections.abc import Sequence
from typing import Protocol


class BlockStore(Protocol):
    """Contents of KV blocks, by number."""

    @property
    def layout(self) -> str:
        """Shape and number format of a block: where two stores say the same, bytes of one are bytes of the other."""

    @property
    def block_bytes(self) -> int:
        """Size of the content of a block, in bytes."""

    def read(self, blocks: Sequence[int]) -> list[bytes]:
        """Copies the contents of blocks."""

    def write(self, blocks: Sequence[int], contents: Sequence[bytes]) -> None:
        """Overwrites the contents of blocks, each of `block_bytes`."""


def store_of(runner: object) -> BlockStore | None:
    """Returns the store of a runner; None where its blocks cannot be copied."""
    store: BlockStore | None = getattr(runner, "block_store", None)
    return store
