"""Keys and values of all blocks, in the layout of the kernels.

A block is one piece of memory, with all its layers one after the other: for each KV head keys, then values, as
`src/kv_cache.h` says, and where those are codes, their scales [kv heads, block size] fp32. So a block that is never
used takes no memory, in huge pages neither.
"""

from dataclasses import dataclass

import numpy as np

from headrace.engine.kernels.storage import Storage
from headrace.engine.memory.aligned import Bytes, address, allocate

SCALED = frozenset({Storage.S8, Storage.FP8})
"""Forms of storage with one fp32 scale per token and head, as OpenVINO has it."""
SCALE_BYTES = 4
READ_BEYOND = 64
"""Bytes past the last value that kernels may read, where heads do not fill whole lanes."""


@dataclass(frozen=True, slots=True)
class KvShape:
    """Shape of the keys and values in one block."""

    layer_count: int
    kv_head_count: int
    head_size: int
    block_size: int
    """Tokens of one block."""
    storage: Storage

    @property
    def number_bytes(self) -> int:
        """Bytes of one layer's keys in a block, or its values, without their scales."""
        return self.kv_head_count * self.block_size * int(self.head_size * self.storage.byte_count)

    @property
    def scale_bytes(self) -> int:
        """Bytes of the scales of one layer's keys in a block, or its values."""
        return self.kv_head_count * self.block_size * SCALE_BYTES if self.storage in SCALED else 0

    @property
    def layer_bytes(self) -> int:
        return 2 * (self.number_bytes + self.scale_bytes)

    @property
    def block_bytes(self) -> int:
        return self.layer_count * self.layer_bytes


@dataclass(frozen=True, slots=True)
class KvPlaces:
    """Addresses of what one layer has in the first block."""

    keys: int
    values: int
    key_scales: int | None
    value_scales: int | None


class KvArena:
    """Memory that is taken from the system only as it is written."""

    def __init__(self, shape: KvShape, block_count: int) -> None:
        self.shape = shape
        self.block_count = block_count
        self._memory: Bytes = np.empty((0, 0), np.uint8)
        self.allocate()

    def allocate(self) -> None:
        """Takes memory for all blocks, full of zeros."""
        size = self.block_count * self.shape.block_bytes
        self._memory = allocate(size + READ_BEYOND)[:size].reshape(self.block_count, -1)

    def release(self) -> None:
        """Gives the memory back, with all that is in it, until `allocate`."""
        self._memory = np.empty((0, 0), np.uint8)

    def clear(self, blocks: list[int]) -> None:
        """Zeroes blocks whose content is not to be trusted: what is masked is still multiplied by zero."""
        self._memory[blocks] = 0

    def places(self, layer: int) -> KvPlaces:
        shape = self.shape
        keys = address(self._memory) + layer * shape.layer_bytes
        values = keys + shape.number_bytes
        if not shape.scale_bytes:
            return KvPlaces(keys, values, None, None)
        key_scales = values + shape.number_bytes
        return KvPlaces(keys, values, key_scales, key_scales + shape.scale_bytes)
