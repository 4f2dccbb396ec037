"""Keys and values of all blocks, and the memory that holds them."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from headrace.engine.memory.aligned import allocate
from headrace.engine.torch.kv.gather_buffer import GatherBuffer
from headrace.engine.torch.kv.kv_layer import KvLayer
from headrace.engine.torch.kv.tensor_bytes import bytes_of, overwrite

SPARE_BLOCK_COUNT = 1
"""Number of zero blocks beyond those of the pool, used to pad short block tables."""


class KvCache:
    """The KV blocks of all layers."""

    def __init__(
        self,
        layer_count: int,
        block_count: int,
        block_size: int,
        kv_head_count: int,
        head_size: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.block_size = block_size
        self.dtype = dtype
        self.zero_block = block_count
        stride = block_count + SPARE_BLOCK_COUNT
        self._layer_count = layer_count
        self._shape = (2, kv_head_count, stride, block_size, head_size)
        self._device = device
        self.layers: list[KvLayer] = []
        self.allocate()
        self._first_blocks = torch.arange(2 * kv_head_count).view(2, 1, kv_head_count, 1) * stride
        self._first_tokens = torch.arange(2 * kv_head_count) * stride * block_size

    @property
    def byte_count(self) -> int:
        """Size of the keys and values of all layers, in bytes."""
        return self._layer_count * math.prod(self._shape) * self.dtype.itemsize

    def allocate(self) -> None:
        """Allocates zeroed memory for all layers."""
        buffer = GatherBuffer(self._shape[-2] * self._shape[-1], self.dtype, self._device)
        self.layers = [KvLayer(self._zeros(), buffer) for _ in range(self._layer_count)]

    def release(self) -> None:
        """Frees the memory and discards its content, until `allocate`."""
        self.layers = []
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def block_rows(self, tables: Tensor) -> Tensor:
        """Returns the cache rows to gather for block tables [sequences, blocks]: int64 [2 x sequences x kv heads x
        blocks]."""
        return (tables[:, None, :] + self._first_blocks).flatten()

    def token_rows(self, slots: Tensor) -> Tensor:
        """Returns the cache rows for writing tokens at `slots` [tokens] (block x block size + offset): int64 [tokens x
        2 x kv heads]."""
        return (slots[:, None] + self._first_tokens).flatten()

    def clear(self, blocks: list[int]) -> None:
        """Zeroes blocks. Stale NaN would leak through the masked part of a later reader's block: 0 x NaN is NaN."""
        for layer in self.layers:
            layer.states[:, :, blocks] = 0

    @property
    def layout(self) -> str:
        """Shape and number format of a block: see `BlockStore`."""
        _, head_count, _, block_size, head_size = self._shape
        return f"rows {self._layer_count} {head_count} {block_size} {head_size} {self.dtype}"

    @property
    def block_bytes(self) -> int:
        return self.byte_count // self._shape[2]

    def read(self, blocks: Sequence[int]) -> list[bytes]:
        """Copies the contents of blocks: layer by layer [2, kv heads, block size, head]."""
        return [b"".join(bytes_of(layer.states[:, :, block]) for layer in self.layers) for block in blocks]

    @torch.inference_mode()
    def write(self, blocks: Sequence[int], contents: Sequence[bytes]) -> None:
        """Overwrites the contents of blocks, each of `block_bytes`."""
        for block, content in zip(blocks, contents, strict=True):
            parts = torch.frombuffer(bytearray(content), dtype=torch.uint8).view(self._layer_count, -1)
            for layer, part in zip(self.layers, parts, strict=True):
                overwrite(layer.states[:, :, block], part)

    def _zeros(self) -> Tensor:
        """Allocates zeros. On a CPU, bypasses the heap, which would keep the memory that `release` frees."""
        if self._device.type != "cpu":
            return torch.zeros(self._shape, dtype=self.dtype, device=self._device)
        memory = allocate(math.prod(self._shape) * self.dtype.itemsize)
        return torch.from_numpy(memory).view(self.dtype).view(self._shape)
