"""Records what a decoder reads from its checkpoint, and how much memory that takes."""

import torch
from torch import Tensor

from headrace.engine.checkpoints.weight_source import WeightSource
from headrace.engine.checkpoints.weights.block_matrix import BlockMatrix
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix, Weight
from headrace.engine.kernels.packed_weight import GRID_BYTES


class WeightRecord:
    """A WeightSource that forwards to another one."""

    def __init__(self, source: WeightSource) -> None:
        self._source = source
        self.tensors: list[str] = []
        """Names of the tensors that are not module matrices."""
        self.modules: dict[str, tuple[int, int]] = {}
        """Shape [out, in] of each module's matrix, by module name."""
        self.byte_count = 0

    def read(self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
        """Reads one tensor, see WeightSource."""
        tensor = self._source.read(name, shape, dtype, device)
        self.tensors.append(name)
        self.byte_count += _byte_count(tensor)
        return tensor

    def matrix(self, name: str, shape: tuple[int, int], dtype: torch.dtype, device: torch.device) -> Weight:
        """Reads the weight of one module, see WeightSource."""
        weight = self._source.matrix(name, shape, dtype, device)
        self.modules[name] = shape
        self.byte_count += _byte_count(weight)
        return weight


def _byte_count(weight: Weight) -> int:
    if isinstance(weight, BlockMatrix):
        return weight.byte_count
    if isinstance(weight, QuantizedMatrix):
        return weight.codes.numel() * weight.bits // 8 + weight.scales.numel() * GRID_BYTES
    return weight.numel() * weight.element_size()
