"""A decoder's tensors in a checkpoint that has other names for them."""

import torch
from torch import Tensor

from headrace.engine.checkpoints.layout.stored_names import StoredNames
from headrace.engine.checkpoints.safetensors_weights import Weights
from headrace.engine.checkpoints.stacked.stacked_weights import StackedWeights
from headrace.engine.checkpoints.weights.quantized_matrix import Weight


class NamedWeights:
    """Reads each tensor by the name that it is stored under. See WeightSource."""

    def __init__(self, weights: Weights | StackedWeights, names: StoredNames) -> None:
        self._weights = weights
        self._names = names

    def read(self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
        return self._weights.read(self._names.stored(name), shape, dtype, device)

    def matrix(self, name: str, shape: tuple[int, int], dtype: torch.dtype, device: torch.device) -> Weight:
        return self._weights.matrix(self._names.stored(name), shape, dtype, device)
