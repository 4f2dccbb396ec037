"""AWQ, version gemm (Lin et al., 2023), as AutoAWQ writes it.

qweight int32 [in, out/8], qzeros int32 [groups, out/8], scales float [groups, out]. Nibble i of a word holds output
column 8 * word + ORDER[i]. W = (code - zero) * scale, without an offset.
"""

import numpy as np
from numpy.typing import NDArray

from headrace.engine.checkpoints.facts.scheme import QuantizationScheme
from headrace.engine.checkpoints.weights.quantized_arrays import Codes, QuantizedArrays
from headrace.engine.checkpoints.weights.tensor_source import TensorSource, check_divisible, take, take_scales

ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""Logical column of each nibble of a word."""
INVERSE_ORDER = tuple(ORDER.index(column) for column in range(len(ORDER)))
BITS = 4
PER_WORD = len(ORDER)


def read(source: TensorSource, name: str, out_size: int, in_size: int, scheme: QuantizationScheme) -> QuantizedArrays:
    """Reads module `name`. Raises InvalidCheckpoint naming the invalid tensor."""
    group_size = scheme.group_size or in_size
    check_divisible(name, "the output size", out_size, PER_WORD)
    check_divisible(name, "the input size", in_size, group_size)
    groups = in_size // group_size
    codes = _unpack(take(source, f"{name}.qweight", (in_size, out_size // PER_WORD), np.int32), out_size)
    scales = take_scales(source, f"{name}.scales", (groups, out_size))
    if f"{name}.qzeros" in source:
        zeros = _unpack(take(source, f"{name}.qzeros", (groups, out_size // PER_WORD), np.int32), out_size)
    else:
        zeros = np.full((out_size, groups), 1 << (BITS - 1), np.uint8)
    return QuantizedArrays(codes, np.ascontiguousarray(scales.T), zeros, BITS, group_size)


def _unpack(words: NDArray[np.int32], count: int) -> Codes:
    """Unpacks int32 [rows, words] to uint8 [count, rows]: logical columns become rows, each written at once."""
    columns = np.ascontiguousarray(words.view(np.uint32).T)
    codes = np.empty((count, len(words)), np.uint8)
    for nibble, column in enumerate(ORDER):
        codes[column::PER_WORD] = (columns >> np.uint32(nibble * BITS)) & np.uint32((1 << BITS) - 1)
    return codes
