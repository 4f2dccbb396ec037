"""compressed-tensors with floating-point codes, as llm-compressor writes it.

float-quantized: weight E4M3 [out, in], weight_scale of a tensor [1], of each output [out, 1], of groups [out, groups]
or of blocks [blocks, groups]. mxfp4-pack-quantized (OCP Microscaling Formats 1.0): weight_packed E2M1, two in a byte,
low bits first [out, in / 2], weight_scale [out, in / 32] the exponents of powers of two, plus 127.
nvfp4-pack-quantized: weight_packed in the same way, weight_scale E4M3 [out, in / 16], divided by weight_global_scale
[1]. Activations stay in the engine's precision.
"""

import numpy as np

from headrace.engine.checkpoints.facts.scheme import QuantizationScheme
from headrace.engine.checkpoints.formats.e4m3 import take_e4m3
from headrace.engine.checkpoints.formats.float_arrays import float_arrays
from headrace.engine.checkpoints.weights.code_numbers import code_numbers
from headrace.engine.checkpoints.weights.quantized_arrays import Floats, QuantizedArrays
from headrace.engine.checkpoints.weights.tensor_source import TensorSource, check_divisible, take, take_finite
from headrace.errors.tree import InvalidCheckpoint

EXPONENT_BIAS = 127
_NO_EXPONENT = 255


def read_numbers(
    source: TensorSource, name: str, out_size: int, in_size: int, scheme: QuantizationScheme
) -> QuantizedArrays:
    """Reads module `name` of 8-bit numbers. Raises InvalidCheckpoint naming the invalid tensor."""
    group_size = scheme.group_size or in_size
    codes = take_e4m3(source, f"{name}.weight", (out_size, in_size))
    stored = source.array(f"{name}.weight_scale")
    if stored.size == 1:
        scales = np.broadcast_to(take_finite(source, f"{name}.weight_scale", stored.shape).reshape(1, 1), (out_size, 1))
    else:
        blocks = -(-out_size // scheme.block_rows), -(-in_size // group_size)
        scales = np.repeat(take_finite(source, f"{name}.weight_scale", blocks), scheme.block_rows, axis=0)[:out_size]
    return float_arrays(name, codes, scales, 8, group_size)


def read_pairs(
    source: TensorSource, name: str, out_size: int, in_size: int, scheme: QuantizationScheme
) -> QuantizedArrays:
    """Reads module `name` of 4-bit numbers. Raises InvalidCheckpoint naming the invalid tensor."""
    group_size = scheme.group_size or in_size
    check_divisible(name, "the input size", in_size, max(2, group_size))
    pairs = take(source, f"{name}.weight_packed", (out_size, in_size // 2), np.uint8)
    codes = np.stack((pairs & 0xF, pairs >> 4), axis=-1).reshape(out_size, in_size)
    scale_shape = (out_size, in_size // group_size)
    if f"{name}.weight_global_scale" not in source:
        return float_arrays(name, codes, _powers(source, f"{name}.weight_scale", scale_shape), 4, group_size)
    fine = code_numbers(8, is_float=True)[take_e4m3(source, f"{name}.weight_scale", scale_shape)]
    whole = take_finite(source, f"{name}.weight_global_scale", (1,))
    if whole[0] == 0:
        raise InvalidCheckpoint(f"tensor {name}.weight_global_scale is 0, and scales are divided by it")
    with np.errstate(over="ignore"):
        scales = fine / whole
    return float_arrays(name, codes, scales, 4, group_size)


def _powers(source: TensorSource, name: str, shape: tuple[int, ...]) -> Floats:
    """Reads exponents as powers of two."""
    exponents = take(source, name, shape, np.uint8)
    if (exponents == _NO_EXPONENT).any():
        raise InvalidCheckpoint(f"tensor {name} holds scales that are no numbers")
    powers: Floats = np.ldexp(np.float32(1), exponents.astype(np.int32) - EXPONENT_BIAS)
    return powers
