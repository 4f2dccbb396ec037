"""A decoder's tensors for torch, on one device and in one type."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.engine.checkpoints.weight_source import WeightSource
from headrace.engine.checkpoints.weights.quantized_matrix import Weight, reordered, stack


@dataclass(frozen=True, slots=True)
class TorchTensors:
    """The tensors of a WeightSource, see ModelTensors."""

    source: WeightSource
    dtype: torch.dtype
    device: torch.device

    def read(self, name: str, shape: tuple[int, ...]) -> Tensor:
        return self.source.read(name, shape, self.dtype, self.device)

    def precise(self, name: str, shape: tuple[int, ...]) -> Tensor:
        return self.source.read(name, shape, torch.float32, self.device)

    def stored(self, name: str, shape: tuple[int, ...], precision: str) -> Tensor:
        kept: torch.dtype = getattr(torch, precision)
        return self.source.read(name, shape, kept if kept.itemsize < self.dtype.itemsize else self.dtype, self.device)

    def matrix(self, name: str, shape: tuple[int, int]) -> Weight:
        return self.source.matrix(name, shape, self.dtype, self.device)

    def stack(self, weights: Sequence[Weight]) -> Weight:
        return stack(weights)

    def ones(self, size: int) -> Tensor:
        return torch.ones(size, dtype=self.dtype, device=self.device)

    def join(self, vectors: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(vectors))

    def raised(self, vector: Tensor, offset: float) -> Tensor:
        return vector.float() + offset

    def scaled(self, vector: Tensor, factor: float) -> Tensor:
        return vector.float() * factor

    def reordered(self, weight: Weight, rows: NDArray[np.int64]) -> Weight:
        return reordered(weight, torch.from_numpy(rows))

    def picked(self, vector: Tensor, places: NDArray[np.int64]) -> Tensor:
        return vector[torch.from_numpy(places).to(vector.device)]
