"""Where the keys and values of all blocks live."""

from dataclasses import dataclass

import torch
from torch import Tensor

SPARE_BLOCK_COUNT = 1
"""A block of zeros beyond those of the pool, which fills up short block tables."""


@dataclass(frozen=True, slots=True)
class KvLayer:
    """Keys and values of one layer, each [kv heads, blocks, block size, head]: a head's block is contiguous."""

    keys: Tensor
    values: Tensor

    def write(self, rows: Tensor, keys: Tensor, values: Tensor) -> None:
        """Stores `keys` and `values` [tokens, kv heads, head] at `rows` [tokens x kv heads], see `KvCache.rows`."""
        head_size = keys.shape[-1]
        self.keys.view(-1, head_size).index_copy_(0, rows, keys.reshape(-1, head_size))
        self.values.view(-1, head_size).index_copy_(0, rows, values.reshape(-1, head_size))


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
        self._stride = block_count + SPARE_BLOCK_COUNT
        shape = (kv_head_count, self._stride, block_size, head_size)
        self.layers = [
            KvLayer(torch.zeros(shape, dtype=dtype, device=device), torch.zeros(shape, dtype=dtype, device=device))
            for _ in range(layer_count)
        ]
        self._heads = torch.arange(kv_head_count)

    def block_rows(self, tables: Tensor) -> Tensor:
        """Where to gather `tables` [sequences, blocks] from: indices [sequences x kv heads x blocks] into a layer's
        [kv heads x blocks] head blocks."""
        return (tables[:, None, :] + (self._heads * self._stride)[:, None]).flatten()

    def rows(self, slots: Tensor) -> Tensor:
        """Where to write tokens: indices [tokens x kv heads] for `slots` [tokens] (block x block size + offset)."""
        return (slots[:, None] + self._heads * self._stride * self.block_size).flatten()

    def clear(self, blocks: list[int]) -> None:
        """Zeroes blocks. Stale NaN would leak through the masked part of a later reader's block: 0 x NaN is NaN."""
        for layer in self.layers:
            layer.keys[:, blocks] = 0
            layer.values[:, blocks] = 0
