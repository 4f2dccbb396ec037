"""Keys and values of all layers, as the kernels for GPUs read and write them."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from headrace.engine.kernels.kv_arena import KvShape
from headrace.engine.kernels.storage import Storage
from headrace.engine.torch.device.device_copy import from_device, to_device
from headrace.engine.triton.attention.kv_pages import KvPages
from headrace.errors.tree import ConfigError

DTYPES = {
    Storage.F32: torch.float32,
    Storage.BF16: torch.bfloat16,
    Storage.F16: torch.float16,
    Storage.S8: torch.int8,
    Storage.FP8: torch.float8_e4m3fn,
}
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
"""Types as which numbers of so many bytes are moved."""
MAX_HEAD_NUMBERS = 1 << 31


class PagedStates:
    """Memory for the KV blocks of a model on one device."""

    def __init__(self, shape: KvShape, block_count: int, device: torch.device) -> None:
        """Allocates the memory. Raises ConfigError if a head has more numbers than 32 bits can count, which the kernels
        do."""
        if block_count * shape.block_size * shape.head_size >= MAX_HEAD_NUMBERS:
            most = MAX_HEAD_NUMBERS // (shape.block_size * shape.head_size) - 1
            raise ConfigError(f"block_count is {block_count}, but the kernels for GPUs reach {most} blocks; lower it")
        self.block_count = block_count
        self.block_size = shape.block_size
        self._shape = shape
        self._device = device
        self.layers: list[KvPages] = []
        self.allocate()

    @property
    def byte_count(self) -> int:
        """Size of the keys and values of all layers with their scales, in bytes."""
        return self.block_count * self._shape.block_bytes

    def allocate(self) -> None:
        """Allocates zeroed memory for all layers."""
        self.layers = [self._zeros() for _ in range(self._shape.layer_count)]

    def release(self) -> None:
        """Frees the memory and discards its content, until `allocate`."""
        self.layers = []
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def clear(self, blocks: list[int]) -> None:
        """Zeroes blocks with untrusted content: a masked value of the same text is still multiplied by zero."""
        for layer in self.layers:
            layer.states[:, :, blocks] = 0
            if layer.scales is not None:
                layer.scales[:, :, blocks] = 0

    @property
    def layout(self) -> str:
        """Shape and number format of a block: see `BlockStore`."""
        shape = self._shape
        sizes = (shape.layer_count, shape.kv_head_count, shape.block_size, shape.head_size)
        return f"pages {' '.join(map(str, sizes))} {shape.storage.name}"

    @property
    def block_bytes(self) -> int:
        return self._shape.block_bytes

    @torch.inference_mode()
    def read(self, blocks: Sequence[int]) -> list[bytes]:
        """Copies the contents of blocks: layer by layer states, then scales, see `KvPages`. All come in one copy."""
        gathered = torch.empty((len(blocks), self.block_bytes), dtype=torch.uint8, device=self._device)
        chosen = to_device(np.array(blocks, np.int64), self._device)
        for part, columns in zip(self._parts(), self._columns(gathered), strict=True):
            columns.copy_(_by_block(part.index_select(2, chosen)))
        return [content.tobytes() for content in from_device(gathered)]

    @torch.inference_mode()
    def write(self, blocks: Sequence[int], contents: Sequence[bytes]) -> None:
        """Overwrites the contents of blocks, each of `block_bytes`. All go in one copy."""
        numbers = np.frombuffer(bytearray().join(contents), np.uint8).reshape(len(blocks), self.block_bytes)
        given = to_device(numbers, self._device)
        chosen = to_device(np.array(blocks, np.int64), self._device)
        for part, columns in zip(self._parts(), self._columns(given), strict=True):
            shape = (len(blocks), 2, *part.shape[1:2], *part.shape[3:])
            found = columns.contiguous().view(part.dtype).view(shape).movedim(0, 2)
            bits = BITS[part.element_size()]
            part.view(bits).index_copy_(2, chosen, found.view(bits))

    def _parts(self) -> Iterator[Tensor]:
        """Lists states and scales of all layers, [2, kv heads, blocks, ...]."""
        for layer in self.layers:
            yield layer.states
            if layer.scales is not None:
                yield layer.scales

    def _columns(self, contents: Tensor) -> Iterator[Tensor]:
        """Lists the bytes of each part in contents [blocks, block bytes]."""
        first = 0
        for part in self._parts():
            end = first + part.element_size() * (part.numel() // self.block_count)
            yield contents[:, first:end]
            first = end

    def _zeros(self) -> KvPages:
        shape = self._shape
        slots = (2, shape.kv_head_count, self.block_count, shape.block_size)
        states = torch.zeros((*slots, shape.head_size), dtype=DTYPES[shape.storage], device=self._device)
        return KvPages(states, torch.zeros(slots, device=self._device) if shape.scale_bytes else None)


def _by_block(part: Tensor) -> Tensor:
    """Returns [2, kv heads, blocks, ...] of any type as bytes [blocks, bytes]."""
    return part.movedim(2, 0).contiguous().view(torch.uint8).flatten(1)
