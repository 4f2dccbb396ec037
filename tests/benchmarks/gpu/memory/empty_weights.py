"""Weights without numbers, in the shapes and types of a quantized checkpoint."""

import torch
from torch import Tensor

from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix, Weight


class EmptyWeights:
    """Implements the Protocol of `weight_source.py`: projections are packed, the head and the embedding are plain."""

    def __init__(self, bits: int, group_size: int) -> None:
        self._bits = bits
        self._group_size = group_size

    def read(self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=device)

    def matrix(self, name: str, shape: tuple[int, int], dtype: torch.dtype, device: torch.device) -> Weight:
        if "_proj" not in name:
            return self.read(name, shape, dtype, device)
        grid = shape[0], shape[1] // self._group_size
        codes = torch.empty(shape, dtype=torch.uint8, device=device)
        scales, zeros = torch.empty(grid, device=device), torch.empty(grid, dtype=torch.uint8, device=device)
        return QuantizedMatrix(codes, scales, zeros, self._bits, self._group_size)
