"""Form of a matrix after loading: packed if a kernel can multiply it that way, otherwise floating-point numbers."""

import torch
from torch import Tensor

from headrace.engine.checkpoints.weights import round_to_nearest
from headrace.engine.checkpoints.weights.packable import can_pack
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix, Weight
from headrace.engine.checkpoints.weights.rounding_sizes import GROUP_SIZES, HEAD_BITS
from headrace.engine.triton.kernel_registry import ProductProblem, can_implement


def place(matrix: QuantizedMatrix, dtype: torch.dtype, device: torch.device) -> Weight:
    """Returns a quantized matrix in the form that this device's products need."""
    if device.type == "cpu" and dtype == torch.float32 and can_pack(matrix)[0]:
        return matrix
    if device.type != "cpu" and can_implement(problem_of(matrix, dtype, device))[0]:
        return matrix.to(device)
    return matrix.dequantize().to(device=device, dtype=dtype)


def problem_of(matrix: QuantizedMatrix, dtype: torch.dtype, device: torch.device) -> ProductProblem:
    """Describes the product of a device's inputs with a matrix, for the kernels of GPUs."""
    return ProductProblem(matrix.bits, matrix.group_size, matrix.codes.shape[1], dtype, device)


def place_rounded(name: str, weight: Tensor, bits: int | None, dtype: torch.dtype, device: torch.device) -> Weight:
    """Returns a plain matrix, rounded to `bits` if requested and its size allows it. Output heads keep 8 bits: they are
    the most sensitive part."""
    group_size = next((size for size in GROUP_SIZES if weight.shape[1] % size == 0), None)
    if bits is None or group_size is None:
        return weight.to(device=device, dtype=dtype)
    kept_bits = HEAD_BITS if name == "lm_head" else bits
    return place(round_to_nearest.quantize(weight, kept_bits, group_size, symmetric=False), dtype, device)
