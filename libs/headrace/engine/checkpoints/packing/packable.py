"""Weights that the kernels can multiply as they are stored."""

from torch import Tensor

from headrace.engine.checkpoints.weights.block_matrix import BlockMatrix
from headrace.engine.checkpoints.weights.quantized_arrays import kernel_group_of
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix, Weight
from headrace.engine.kernels.library import load_kernels


def can_pack(weight: Weight) -> tuple[bool, str]:
    """Whether the kernels can take a weight, and the reason if they cannot."""
    if load_kernels() is None:
        return False, "the kernels are not compiled"
    if isinstance(weight, BlockMatrix):
        return True, "ok"
    if weight.device.type != "cpu" if isinstance(weight, Tensor) else weight.codes.device.type != "cpu":
        return False, "the weight is not in the memory of the CPU"
    if isinstance(weight, QuantizedMatrix):
        if weight.is_float:
            return False, "its codes are floating-point numbers; the kernels multiply integers"
        if weight.has_offsets:
            return False, "its groups have offsets; the kernels have zero points"
        in_size = weight.codes.shape[1]
        if in_size % weight.group_size or kernel_group_of(weight.group_size) is None:
            return False, f"groups of {weight.group_size} in {in_size} inputs; the kernels need whole groups of 32s"
    return True, "ok"
