"""Weights for torch of a checkpoint that stacks its experts."""

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from headrace.engine.checkpoints.facts.expert_config import StackedExperts
from headrace.engine.checkpoints.formats.formats import read_quantized
from headrace.engine.checkpoints.stacked.stacked_tensors import EntrySource, StackedTensors
from headrace.engine.checkpoints.weights.quantized_arrays import QuantizedArrays
from headrace.engine.checkpoints.weights.quantized_matrix import Weight
from headrace.engine.checkpoints.weights.tensor_source import take


class EntryWeights(EntrySource, Protocol):
    """Weights of which single entries can be read: see WeightSource."""

    def read(self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor: ...

    def matrix(self, name: str, shape: tuple[int, int], dtype: torch.dtype, device: torch.device) -> Weight: ...

    def placed(self, name: str, arrays: QuantizedArrays, dtype: torch.dtype, device: torch.device) -> Weight:
        """Returns a quantized weight as the device's products need it."""
        ...

    def placed_numbers(self, name: str, numbers: Tensor, dtype: torch.dtype, device: torch.device) -> Weight:
        """Returns a plain weight as the device's products need it, rounded if plain numbers are."""
        ...


class StackedWeights:
    """Reads each expert's tensors by the names that its own would have. See WeightSource."""

    def __init__(self, weights: EntryWeights, layout: StackedExperts) -> None:
        self._weights = weights
        self._tensors = StackedTensors(weights, layout)

    def read(self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
        if not self._tensors.has_expert(name):
            return self._weights.read(name, shape, dtype, device)
        return torch.from_numpy(take(self._tensors, name, shape, np.float32)).to(device=device, dtype=dtype)

    def matrix(self, name: str, shape: tuple[int, int], dtype: torch.dtype, device: torch.device) -> Weight:
        if not self._tensors.has_expert(f"{name}.weight"):
            return self._weights.matrix(name, shape, dtype, device)
        quantized = read_quantized(self._tensors, name, *shape, self._weights.scheme)
        if quantized is not None:
            return self._weights.placed(name, quantized, dtype, device)
        numbers = self.read(f"{name}.weight", shape, dtype, torch.device("cpu"))
        return self._weights.placed_numbers(name, numbers, dtype, device)
