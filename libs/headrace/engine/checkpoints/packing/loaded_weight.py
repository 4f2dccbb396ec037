"""Form of a matrix after loading: packed if a kernel can multiply it that way, otherwise floating-point numbers."""

import torch
from torch import Tensor

from headrace.engine.checkpoints.layout.stored_names import is_head
from headrace.engine.checkpoints.packing.packable import can_pack
from headrace.engine.checkpoints.weights import round_to_nearest
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix, Weight
from headrace.engine.checkpoints.weights.weight_rounding import GROUP_SIZES, HEAD_BITS
from headrace.engine.triton.kernel_registry import ProductProblem, can_implement


def place(matrix: QuantizedMatrix, dtype: torch.dtype, device: torch.device) -> Weight:
    """Returns a quantized matrix in the form that this device's products need."""
    if device.type == "cpu" and dtype == torch.float32 and can_pack(matrix)[0]:
        return matrix
    # In an interpreter the kernels of GPUs run on a CPU, whose own take no floating-point codes.
    if (device.type != "cpu" or matrix.is_float) and (packed := place_for_gpu(matrix, dtype, device)) is not None:
        return packed
    return matrix.dequantize().to(device=device, dtype=dtype)


def place_for_gpu(matrix: QuantizedMatrix, dtype: torch.dtype, device: torch.device) -> QuantizedMatrix | None:
    """Returns a quantized matrix in a device's memory, for the kernels of GPUs. None: they do not take it there."""
    return matrix.to(device) if can_implement(problem_of(matrix, dtype, device))[0] else None


def problem_of(matrix: QuantizedMatrix, dtype: torch.dtype, device: torch.device) -> ProductProblem:
    """Describes the product of a device's inputs with a matrix, for the kernels of GPUs."""
    return ProductProblem(matrix.bits, matrix.group_size, matrix.codes.shape[1], dtype, device)


def place_rounded(name: str, weight: Tensor, bits: int | None, dtype: torch.dtype, device: torch.device) -> Weight:
    """Returns a plain matrix, rounded to `bits` if requested and its size allows it. Output heads keep 8 bits, whatever
    the checkpoint calls them: they are the most sensitive part."""
    group_size = next((size for size in GROUP_SIZES if weight.shape[1] % size == 0), None)
    if bits is None or group_size is None:
        return weight.to(device=device, dtype=dtype)
    kept_bits = HEAD_BITS if is_head(name) else bits
    return place(round_to_nearest.quantize(weight, kept_bits, group_size, symmetric=False), dtype, device)
