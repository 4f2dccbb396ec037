"""A store of KV blocks that is read and written with its device as the current one."""

from collections.abc import Sequence

import torch

from headrace.engine.kv.block_store import BlockStore
from headrace.engine.torch.device.current_device import on_device


class DeviceBlockStore:
    """Implements the Protocol of `block_store.py` by another store. Other engines ask for blocks between two steps."""

    def __init__(self, store: BlockStore, device: torch.device) -> None:
        self._store = store
        self._device = device

    @property
    def layout(self) -> str:
        """Shape and number format of a block, see BlockStore."""
        return self._store.layout

    @property
    def block_bytes(self) -> int:
        """Size of the content of a block, in bytes."""
        return self._store.block_bytes

    def read(self, blocks: Sequence[int]) -> list[bytes]:
        """Copies the contents of blocks."""
        with on_device(self._device):
            return self._store.read(blocks)

    def write(self, blocks: Sequence[int], contents: Sequence[bytes]) -> None:
        """Overwrites the contents of blocks, each of `block_bytes`."""
        with on_device(self._device):
            self._store.write(blocks, contents)
