"""Packs weights that torch holds, plain or quantized."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.engine.checkpoints.packing.array_packing import (
    chosen_rows,
    pack_array,
    pack_runs,
    stored_array,
    with_bias,
)
from headrace.engine.checkpoints.weights.block_matrix import BlockMatrix
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix, Weight, plain
from headrace.engine.kernels.packed_weight import PackedWeight, pack_plain
from headrace.engine.kernels.storage import Storage


def pack(weight: Weight, bias: Tensor | None = None, rows: Sequence[int] | Tensor | None = None) -> PackedWeight:
    """Packs a weight, see `pack_array`. Plain weights of 16 bits keep their type, and floating-point codes become plain
    numbers."""
    picked = None if bias is None else bias.float().contiguous().numpy()
    wanted = rows.numpy() if isinstance(rows, Tensor) else rows
    if isinstance(weight, QuantizedMatrix) and not weight.is_float:
        return pack_array(weight.arrays(), picked, wanted)
    numbers = plain(weight)
    return with_bias(pack_plain(*stored(numbers), chosen_rows(wanted, len(numbers))), picked, wanted)


def pack_parts(weight: Weight, bias: Tensor | None = None) -> list[PackedWeight]:
    """Packs all rows of a weight: each run of blocks of one kind alone, and any other weight as one."""
    if isinstance(weight, BlockMatrix):
        return pack_runs(weight.arrays, None if bias is None else bias.float().contiguous().numpy())
    return [pack(weight, bias)]


def stored(tensor: Tensor) -> tuple[NDArray[np.generic], Storage]:
    """Returns the same numbers in a type the kernels read."""
    whole = tensor.contiguous()
    if whole.dtype == torch.bfloat16:
        return whole.view(torch.int16).numpy(), Storage.BF16
    return (whole.numpy(), Storage.F16) if whole.dtype == torch.float16 else stored_array(whole.numpy())
