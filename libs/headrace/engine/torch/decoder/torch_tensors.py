"""A decoder's tensors for torch, on one device and in one type."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.engine.checkpoints.weight_source import WeightSource
from headrace.engine.checkpoints.weights.quantized_matrix import Weight, stack


@dataclass(frozen=True, slots=True)
class TorchTensors:
    """The tensors of a WeightSource, see ModelTensors."""

    source: WeightSource
    dtype: torch.dtype
    device: torch.device

    def read(self, name: str, shape: tuple[int, ...]) -> Tensor:
        return self.source.read(name, shape, self.dtype, self.device)

    def matrix(self, name: str, shape: tuple[int, int]) -> Weight:
        return self.source.matrix(name, shape, self.dtype, self.device)

    def stack(self, weights: Sequence[Weight]) -> Weight:
        return stack(weights)

    def join(self, vectors: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(vectors))

    def raised(self, vector: Tensor, offset: float) -> Tensor:
        return vector.float() + offset
