"""Packs weights as checkpoints have them: torch's tensors, plain or quantized."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.engine.kernels.cpu.library import load_kernels
from headrace.engine.kernels.cpu.packed_weight import GROUPS, PackedWeight, pack_codes, pack_plain
from headrace.engine.kernels.cpu.storage import Storage
from headrace.engine.quantization.quantized_matrix import QuantizedMatrix, Weight

_PLAIN = {torch.float32: Storage.F32, torch.bfloat16: Storage.BF16, torch.float16: Storage.F16}


def can_pack(weight: Weight) -> tuple[bool, str]:
    """Whether the kernels can take a weight, and why not."""
    if load_kernels() is None:
        return False, "the kernels are not compiled"
    if weight.device.type != "cpu" if isinstance(weight, Tensor) else weight.codes.device.type != "cpu":
        return False, "the weight is not in the memory of the CPU"
    if isinstance(weight, QuantizedMatrix):
        in_size = weight.codes.shape[1]
        if in_size % weight.group_size or _group(weight) is None:
            return False, f"groups of {weight.group_size} in {in_size} inputs; the kernels need whole groups of 32s"
    return True, "ok"


def pack(weight: Weight, bias: Tensor | None = None, rows: Sequence[int] | Tensor | None = None) -> PackedWeight:
    """Packs a weight. `rows` names the row of `weight` and `bias` that each row of the product has, -1 for zeros;
    unset: all as they come. Plain weights take 16 bits each where that loses nothing."""
    shape = weight.codes.shape if isinstance(weight, QuantizedMatrix) else weight.shape
    chosen = torch.arange(shape[0]) if rows is None else torch.as_tensor(rows, dtype=torch.int64)
    picked = None if bias is None else torch.where(chosen >= 0, bias.float()[chosen.clamp(min=0)], 0.0)
    if isinstance(weight, QuantizedMatrix):
        packed = _pack_codes(weight, chosen.numpy())
    else:
        packed = pack_plain(*stored(weight), chosen.numpy())
    return packed if picked is None else replace(packed, bias=picked.contiguous().numpy())


def stored(tensor: Tensor) -> tuple[NDArray[np.generic], Storage]:
    """Returns the same numbers as the kernels read them: in 16 bits, if all of them fit there, because checkpoints
    mostly come from bf16 or fp16."""
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


def _group(matrix: QuantizedMatrix) -> int | None:
    return next((size for size in GROUPS if matrix.group_size % size == 0), None)


def _pack_codes(matrix: QuantizedMatrix, rows: NDArray[np.int64]) -> PackedWeight:
    """Packs the codes of a quantized matrix. Those of 8 bits become signed."""
    group = _group(matrix)
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
