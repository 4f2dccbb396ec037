"""Form in which a loaded matrix is kept: packed where a kernel multiplies it so, else as floating-point numbers."""

import torch
from torch import Tensor

from headrace.engine.checkpoints.weights import round_to_nearest
from headrace.engine.checkpoints.weights.packable import can_pack
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix, Weight

GROUP_SIZES = (128, 64, 32)
"""Group sizes that are tried in order when rounding at load: the largest that divides the input size."""
HEAD_BITS = 8


def place(matrix: QuantizedMatrix, dtype: torch.dtype, device: torch.device) -> Weight:
    """Returns a quantized matrix as the product of this device wants it."""
    if device.type == "cpu" and dtype == torch.float32 and can_pack(matrix)[0]:
        return matrix
    return matrix.dequantize().to(device=device, dtype=dtype)


def place_rounded(name: str, weight: Tensor, bits: int | None, dtype: torch.dtype, device: torch.device) -> Weight:
    """Returns a plain matrix, rounded to `bits` where that was asked for and its size allows. Output heads keep 8 bits:
    they are the most sensitive part."""
    group_size = next((size for size in GROUP_SIZES if weight.shape[1] % size == 0), None)
    if bits is None or group_size is None:
        return weight.to(device=device, dtype=dtype)
    kept_bits = HEAD_BITS if name == "lm_head" else bits
    return place(round_to_nearest.quantize(weight, kept_bits, group_size, symmetric=False), dtype, device)
