"""The tensors of a GGUF file for torch, by their names in Hugging Face checkpoints."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headrace.engine.checkpoints.gguf.gguf_arrays import GgufArrays
from headrace.engine.checkpoints.gguf.gguf_blocks import block_codes
from headrace.engine.checkpoints.packing.loaded_weight import place_for_gpu, place_rounded
from headrace.engine.checkpoints.weights.block_matrix import BlockMatrix
from headrace.engine.checkpoints.weights.quantized_arrays import BlockArrays
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix, Weight, stack
from headrace.engine.triton.kernel_registry import can_launch

CPU = torch.device("cpu")
MAX_HELD_BYTES = 64 << 20


class GgufFile:
    """A WeightSource that reads from one GGUF file, memory mapped."""

    def __init__(self, path: Path, round_to_bits: int | None = None, *, keeps_blocks: bool = False) -> None:
        """`keeps_blocks` has `matrix` return blocks where the file has them. Raises InvalidCheckpoint or
        Unsupported."""
        self._arrays = GgufArrays(path, keeps_blocks=round_to_bits is None)
        self._round_to_bits = round_to_bits
        self._keeps_blocks = keeps_blocks
        self._held_bytes = 0
        """Bytes of blocks that were handed out since the file's pages were last given back."""

    def config(self) -> dict[str, Any]:
        """Converts the metadata to a config.json, see GgufArrays."""
        return self._arrays.config()

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def read(self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
        """Reads the tensor that Hugging Face calls `name`. Raises InvalidCheckpoint if it is missing or misshapen."""
        return torch.from_numpy(self._arrays.values(name, shape)).to(device=device, dtype=dtype)

    def matrix(self, name: str, shape: tuple[int, int], dtype: torch.dtype, device: torch.device) -> Weight:
        """Reads the weight [out, in] of module `name`: see WeightSource. GPUs multiply most kinds of blocks by their
        codes."""
        blocks = self._arrays.quantized(name, shape) if self._keeps_blocks or can_launch(device)[0] else None
        if blocks is not None and self._keeps_blocks:
            return self._handed_out(BlockMatrix(blocks))
        codes = None if blocks is None else _codes(blocks)
        if isinstance(codes, QuantizedMatrix) and (packed := place_for_gpu(codes, dtype, device)) is not None:
            return packed
        weight = self.read(f"{name}.weight", shape, torch.float32, CPU)
        return place_rounded(name, weight, self._round_to_bits, dtype, device)

    def _handed_out(self, matrix: BlockMatrix) -> BlockMatrix:
        """Gives the file's pages back now and then: what takes blocks packs them into memory of its own."""
        self._held_bytes += matrix.byte_count
        if self._held_bytes >= MAX_HELD_BYTES:
            self._arrays.forget()
            self._held_bytes = 0
        return matrix


def _codes(blocks: BlockArrays) -> Weight:
    return stack([QuantizedMatrix.of(block_codes(run)) for run in blocks.runs])
