"""Keys and values of all blocks, in the layout of the kernels: keys [kv heads, blocks, head, block size], so that
sixteen tokens lie side by side, and values [kv heads, blocks, block size, head]."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.engine.kernels.cpu.memory import allocate
from headrace.engine.kernels.cpu.storage import Storage

DTYPES = {
    Storage.F32: torch.float32,
    Storage.BF16: torch.bfloat16,
    Storage.S8: torch.int8,
    Storage.FP8: torch.uint8,
}
SCALED = frozenset({Storage.S8, Storage.FP8})
"""With one fp32 scale per token and head, as OpenVINO has it."""


def block_bytes(storage: Storage, layer_count: int, kv_head_count: int, head_size: int, block_size: int) -> int:
    """Memory of one block over all layers."""
    per_head = head_size * storage.byte_count + (4 if storage in SCALED else 0)
    return int(2 * layer_count * kv_head_count * block_size * per_head)


@dataclass(frozen=True, slots=True)
class KvLayerArena:
    keys: Tensor
    values: Tensor
    key_scales: Tensor | None
    """fp32 [kv heads, blocks, block size]."""
    value_scales: Tensor | None


class KvArena:
    """Memory that is taken from the system only as it is written."""

    def __init__(
        self, layer_count: int, block_count: int, block_size: int, kv_head_count: int, head_size: int, storage: Storage
    ) -> None:
        self.block_count = block_count
        self.block_size = block_size
        self.storage = storage
        self._layer_count = layer_count
        self._heads = (kv_head_count, block_count)
        self._head_size = head_size
        self.layers: list[KvLayerArena] = []
        self.allocate()

    def allocate(self) -> None:
        """Takes memory for all layers, full of zeros."""
        self.layers = [self._layer() for _ in range(self._layer_count)]

    def release(self) -> None:
        """Gives the memory back, with all that is in it, until `allocate`."""
        self.layers = []

    def clear(self, blocks: list[int]) -> None:
        """Zeroes blocks whose content is not to be trusted: what is masked is still multiplied by zero."""
        for layer in self.layers:
            for tensor in (layer.keys, layer.values, layer.key_scales, layer.value_scales):
                if tensor is not None:
                    tensor[:, blocks] = 0

    def _layer(self) -> KvLayerArena:
        sizes, dtype = (self.block_size, self._head_size), DTYPES[self.storage]
        scales = [self._zeros(torch.float32, sizes[0]) if self.storage in SCALED else None for _ in range(2)]
        return KvLayerArena(self._zeros(dtype, *reversed(sizes)), self._zeros(dtype, *sizes), *scales)

    def _zeros(self, dtype: torch.dtype, *sizes: int) -> Tensor:
        """[kv heads, blocks, *sizes]."""
        shape = (*self._heads, *sizes)
        return allocate(math.prod(shape) * dtype.itemsize).view(dtype).view(shape)
