"""Packs weights in the forms checkpoints have them: torch tensors, plain or quantized."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.engine.checkpoints.weights.packable import kernel_group
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix, Weight
from headrace.engine.kernels.packed_weight import PackedWeight, pack_codes, pack_plain
from headrace.engine.kernels.storage import Storage

_PLAIN = {torch.float32: Storage.F32, torch.bfloat16: Storage.BF16, torch.float16: Storage.F16}


def pack(weight: Weight, bias: Tensor | None = None, rows: Sequence[int] | Tensor | None = None) -> PackedWeight:
    """Packs a weight. `rows` gives, for each row of the product, the row of `weight` and `bias` to use, or -1 for
    zeros; unset: all rows in order. Plain weights take 16 bits each if that loses nothing."""
    shape = weight.codes.shape if isinstance(weight, QuantizedMatrix) else weight.shape
    chosen = torch.arange(shape[0]) if rows is None else torch.as_tensor(rows, dtype=torch.int64)
    picked = None if bias is None else torch.where(chosen >= 0, bias.float()[chosen.clamp(min=0)], 0.0)
    if isinstance(weight, QuantizedMatrix):
        packed = _pack_codes(weight, chosen.numpy())
    else:
        packed = pack_plain(*stored(weight), chosen.numpy())
    return packed if picked is None else replace(packed, bias=picked.contiguous().numpy())


def stored(tensor: Tensor) -> tuple[NDArray[np.generic], Storage]:
    """Returns the same numbers in a type the kernels read: 16 bits if all of them fit, since checkpoints mostly come
    from bf16 or fp16."""
    compact = _compact(tensor).contiguous()
    numbers = compact.view(torch.int16) if compact.dtype == torch.bfloat16 else compact
    return numbers.numpy(), _PLAIN[compact.dtype]


def _compact(tensor: Tensor) -> Tensor:
    if tensor.dtype != torch.float32:
        return tensor
    for dtype in (torch.bfloat16, torch.float16):
        smaller = tensor.to(dtype)
        if torch.equal(smaller.float(), tensor):
            return smaller
    return tensor


def _pack_codes(matrix: QuantizedMatrix, rows: NDArray[np.int64]) -> PackedWeight:
    """Packs the codes of a quantized matrix. 8-bit codes become signed."""
    group = kernel_group(matrix)
    if group is None:
        raise ValueError("ask can_pack first")
    storage = Storage.U4 if matrix.bits <= 4 else Storage.S8
    repeats = matrix.group_size // group
    scales = matrix.scales.repeat_interleave(repeats, dim=1).float().contiguous()
    zeros = matrix.zeros.repeat_interleave(repeats, dim=1).contiguous()
    codes = matrix.codes.contiguous()
    if storage is Storage.S8:
        codes, zeros = codes ^ 0x80, zeros ^ 0x80
    packed = pack_codes(codes.numpy(), scales.numpy(), zeros.numpy(), storage, rows)
    if matrix.input_order is None:
        return packed
    return replace(packed, order=matrix.input_order.to(torch.int32).contiguous().numpy())
