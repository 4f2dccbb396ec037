"""Packs weights that were read into numpy's arrays, plain or quantized."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from headrace.engine.checkpoints.weights.quantized_arrays import (
    ArrayWeight,
    BlockArrays,
    Floats,
    QuantizedArrays,
    kernel_group_of,
)
from headrace.engine.checkpoints.weights.stored_arrays import Numbers, StoredArrays
from headrace.engine.kernels.choice.candidates import choose_instructions
from headrace.engine.kernels.packed_weight import PackedWeight, pack_block_parts, pack_codes, pack_plain, pack_rounded
from headrace.engine.kernels.storage import Storage, code_storage

PROBED = 4096
"""Numbers of a weight that show whether it may fit 16 bits."""

Rows = Sequence[int] | NDArray[np.int64]


def pack_array(weight: ArrayWeight, bias: Floats | None = None, rows: Rows | None = None) -> PackedWeight:
    """Packs a weight. `rows` gives, for each row of the product, the row of `weight` and `bias` to use, or -1 for
    zeros; unset: all rows in order. Plain weights take 16 bits each if that loses nothing. Raises ValueError for blocks
    of several kinds: see `pack_runs`."""
    if isinstance(weight, BlockArrays):
        (run,) = weight.runs
        packed = pack_block_parts(run.parts, run.storage, chosen_rows(rows, run.row_count))
        return with_bias(packed, bias, rows)
    if isinstance(weight, QuantizedArrays):
        return with_bias(_pack_codes(weight, chosen_rows(rows, len(weight.codes))), bias, rows)
    return with_bias(_pack_stored(weight, chosen_rows(rows, weight.row_count)), bias, rows)


def pack_runs(weight: ArrayWeight, bias: Floats | None = None) -> list[PackedWeight]:
    """Packs all rows of a weight: each run of blocks of one kind alone, and any other weight as one."""
    if not isinstance(weight, BlockArrays):
        return [pack_array(weight, bias)]
    packed, first = [], 0
    for run in weight.runs:
        last = first + run.row_count
        packed.append(pack_array(BlockArrays((run,)), None if bias is None else bias[first:last]))
        first = last
    return packed


def chosen_rows(rows: Rows | None, count: int) -> NDArray[np.int64]:
    """Returns the rows to pack as integers: all `count` in order if none are given."""
    return np.arange(count) if rows is None else np.ascontiguousarray(rows, dtype=np.int64)


def with_bias(packed: PackedWeight, bias: Floats | None, rows: Rows | None) -> PackedWeight:
    """Adds a bias [out] to a packed weight, in the order of its rows."""
    if bias is None:
        return packed
    chosen = chosen_rows(rows, len(bias))
    picked = np.where(chosen >= 0, bias[np.maximum(chosen, 0)], np.float32(0)).astype(np.float32)
    return replace(packed, bias=picked)


def stored_array(numbers: Floats) -> tuple[NDArray[np.generic], Storage]:
    """Returns the same numbers in a type the kernels read: 16 bits if all of them fit, since checkpoints mostly come
    from bf16 or fp16."""
    numbers = np.ascontiguousarray(numbers)
    # Where some of the first do not fit, there is no need to convert all.
    _, storage = _narrow(numbers.reshape(-1)[:PROBED])
    return (numbers, storage) if storage is Storage.F32 else _narrow(numbers)


def _narrow(numbers: Floats) -> tuple[NDArray[np.generic], Storage]:
    bits = numbers.view(np.uint32)
    if not (bits & np.uint32(0xFFFF)).any():
        return (bits >> np.uint32(16)).astype(np.uint16).view(np.int16), Storage.BF16
    with np.errstate(over="ignore"):
        half = numbers.astype(np.float16)
    return (half, Storage.F16) if np.array_equal(half.astype(np.float32), numbers) else (numbers, Storage.F32)


def narrowed(weight: StoredArrays) -> tuple[Numbers, Storage]:
    """Returns the numbers of a weight in the narrowest type that holds them, in newly allocated memory."""
    if weight.storage is Storage.F32:
        return stored_array(weight.values())
    return np.array(weight.whole()), weight.storage


def _pack_stored(weight: StoredArrays, rows: NDArray[np.int64]) -> PackedWeight:
    """Packs a plain weight, rounded to its bits if it has any, by kernels that passed the self test: what they pack is
    kept on disk."""
    if weight.bits is None:
        is_wide = weight.storage is Storage.F32
        numbers, storage = stored_array(weight.values()) if is_wide else (weight.whole(), weight.storage)
        return pack_plain(numbers, storage, rows)
    group = kernel_group_of(weight.group_size)
    if group != weight.group_size:
        raise ValueError(f"kernels have no groups of {weight.group_size}")
    instructions = choose_instructions()
    if instructions is None:
        raise RuntimeError("no kernels can round weights here; ask can_fuse first")
    return pack_rounded(weight.parts, weight.storage, code_storage(weight.bits), group, rows, instructions)


def _pack_codes(matrix: QuantizedArrays, rows: NDArray[np.int64]) -> PackedWeight:
    """Packs the codes of a quantized matrix."""
    group = kernel_group_of(matrix.group_size)
    if group is None:
        raise ValueError("ask can_pack first")
    repeats = matrix.group_size // group
    scales = np.repeat(matrix.scales, repeats, axis=1)
    zeros, codes = np.repeat(matrix.zeros, repeats, axis=1), np.ascontiguousarray(matrix.codes)
    grids = (np.ascontiguousarray(scales), np.ascontiguousarray(zeros))
    packed = pack_codes(codes, *grids, code_storage(matrix.bits), rows)
    return packed if matrix.input_order is None else replace(packed, order=matrix.input_order.astype(np.int32))
