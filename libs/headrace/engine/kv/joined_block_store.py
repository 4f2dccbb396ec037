"""A store of KV blocks whose contents lie in several stores."""

from collections.abc import Sequence

from headrace.engine.kv.block_store import BlockStore


class JoinedBlockStore:
    """Implements the Protocol of `block_store.py`: a block's content is that of each store, one after the other."""

    def __init__(self, stores: Sequence[BlockStore]) -> None:
        self._stores = stores

    @property
    def layout(self) -> str:
        """Shape and number format of a block, see BlockStore."""
        return " + ".join(store.layout for store in self._stores)

    @property
    def block_bytes(self) -> int:
        """Size of the content of a block, in bytes."""
        return sum(store.block_bytes for store in self._stores)

    def read(self, blocks: Sequence[int]) -> list[bytes]:
        """Copies the contents of blocks."""
        return [b"".join(parts) for parts in zip(*(store.read(blocks) for store in self._stores), strict=True)]

    def write(self, blocks: Sequence[int], contents: Sequence[bytes]) -> None:
        """Overwrites the contents of blocks, each of `block_bytes`."""
        first = 0
        for store in self._stores:
            end = first + store.block_bytes
            store.write(blocks, [content[first:end] for content in contents])
            first = end
