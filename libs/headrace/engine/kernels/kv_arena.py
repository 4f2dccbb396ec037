"""Keys and values of all blocks, in the layout of the kernels.

A block is contiguous and has all its layers one after the other. A layer has, for each KV head, keys and then values in
the layout of `src/kv_cache.h`, and for codes their fp32 scales [kv heads, block size]. So a block that is never used
takes no memory, even with huge pages.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace.engine.kernels.storage import Storage
from headrace.engine.memory.aligned import Bytes, address, allocate

SCALED = frozenset({Storage.S8, Storage.FP8})
"""Storage types with one fp32 scale per token and head, as in OpenVINO."""
SCALE_BYTES = 4
READ_BEYOND = 64
"""Bytes that kernels may read past the last value, if heads do not fill whole lanes."""


@dataclass(frozen=True, slots=True)
class KvShape:
    """Shape of the keys and values in one block."""

    layer_count: int
    kv_head_count: int
    head_size: int
    block_size: int
    """Tokens per block."""
    storage: Storage

    @property
    def number_bytes(self) -> int:
        """Size of one layer's keys (or values) in a block, without scales, in bytes."""
        return self.kv_head_count * self.block_size * int(self.head_size * self.storage.byte_count)

    @property
    def scale_bytes(self) -> int:
        """Size of the scales of one layer's keys (or values) in a block, in bytes."""
        return self.kv_head_count * self.block_size * SCALE_BYTES if self.storage in SCALED else 0

    @property
    def layer_bytes(self) -> int:
        return 2 * (self.number_bytes + self.scale_bytes)

    @property
    def block_bytes(self) -> int:
        return self.layer_count * self.layer_bytes


@dataclass(frozen=True, slots=True)
class KvPlaces:
    """Addresses of one layer's data in the first block."""

    keys: int
    values: int
    key_scales: int | None
    value_scales: int | None


class KvArena:
    """Memory that the system provides only as it is written."""

    def __init__(self, shape: KvShape, block_count: int) -> None:
        self.shape = shape
        self.block_count = block_count
        self._memory: Bytes = np.empty((0, 0), np.uint8)
        self.allocate()

    def allocate(self) -> None:
        """Reserves zeroed memory for all blocks."""
        size = self.block_count * self.shape.block_bytes
        self._memory = allocate(size + READ_BEYOND)[:size].reshape(self.block_count, -1)

    def release(self) -> None:
        """Frees the memory and discards its content, until `allocate`."""
        self._memory = np.empty((0, 0), np.uint8)

    def clear(self, blocks: list[int]) -> None:
        """Zeroes blocks with untrusted content: masked values are still multiplied by zero, and 0 x NaN is NaN."""
        self._memory[blocks] = 0

    @property
    def layout(self) -> str:
        """Shape and number format of a block: see `BlockStore`."""
        return f"arena {self.shape!r}"

    @property
    def block_bytes(self) -> int:
        return self.shape.block_bytes

    def read(self, blocks: Sequence[int]) -> list[bytes]:
        """Copies the contents of blocks."""
        return [self._memory[block].tobytes() for block in blocks]

    def write(self, blocks: Sequence[int], contents: Sequence[bytes]) -> None:
        """Overwrites the contents of blocks, each of `block_bytes`."""
        for block, content in zip(blocks, contents, strict=True):
            self._memory[block] = np.frombuffer(content, np.uint8)

    def places(self, layer: int) -> KvPlaces:
        shape = self.shape
        keys = address(self._memory) + layer * shape.layer_bytes
        values = keys + shape.number_bytes
        if not shape.scale_bytes:
            return KvPlaces(keys, values, None, None)
        key_scales = values + shape.number_bytes
        return KvPlaces(keys, values, key_scales, key_scales + shape.scale_bytes)
