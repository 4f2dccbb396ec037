"""compressed-tensors, as llm-compressor writes it: pack-quantized and int-quantized.

pack-quantized: weight_packed int32 [out, in * bits / 32], packed along inputs, with 2**(bits-1) added to each code;
weight_scale [out, groups]; weight_zero_point int32 [out * bits / 32, groups], packed along outputs, with the same
offset. int-quantized: weight int8 [out, in], weight_scale [out, 1]. Such checkpoints expect activations to be quantized
per token at run time; here they stay in the engine's precision.
"""

import numpy as np

from headrace.engine.checkpoints.facts.scheme import QuantizationScheme
from headrace.engine.checkpoints.formats.bit_packing import unpack, words_for
from headrace.engine.checkpoints.weights.quantized_arrays import Codes, QuantizedArrays
from headrace.engine.checkpoints.weights.tensor_source import TensorSource, check_divisible, take, take_scales
from headrace.errors.tree import InvalidCheckpoint, Unsupported

INT8_OFFSET = 128


def read(source: TensorSource, name: str, out_size: int, in_size: int, scheme: QuantizationScheme) -> QuantizedArrays:
    """Reads module `name`. Raises InvalidCheckpoint naming the invalid tensor."""
    if f"{name}.weight_g_idx" in source:
        raise Unsupported(f"module {name}: compressed-tensors with activation order (weight_g_idx) is not supported")
    group_size = scheme.group_size or in_size
    check_divisible(name, "the input size", in_size, group_size)
    groups = in_size // group_size
    scales = take_scales(source, f"{name}.weight_scale", (out_size, groups))
    if f"{name}.weight_packed" not in source:
        codes = take(source, f"{name}.weight", (out_size, in_size), np.int8).astype(np.int16) + INT8_OFFSET
        zeros = np.full(scales.shape, INT8_OFFSET, np.uint8)
        return QuantizedArrays(codes.astype(np.uint8), scales, zeros, 8, group_size)
    _check_shape(source, name, (out_size, in_size))
    words = take(source, f"{name}.weight_packed", (out_size, words_for(in_size, scheme.bits)), np.int32)
    zeros = _zeros(source, name, (out_size, groups), scheme)
    return QuantizedArrays(unpack(words, scheme.bits, in_size), scales, zeros, scheme.bits, group_size)


def _check_shape(source: TensorSource, name: str, shape: tuple[int, int]) -> None:
    if f"{name}.weight_shape" in source:
        stated = tuple(source.array(f"{name}.weight_shape").flatten().tolist())
        if stated != shape:
            raise InvalidCheckpoint(f"tensor {name}.weight_shape says {stated}; config.json implies {shape}")


def _zeros(source: TensorSource, name: str, shape: tuple[int, int], scheme: QuantizationScheme) -> Codes:
    """Reads the zero points uint8 [out, groups], with the same offset as the codes."""
    if scheme.symmetric:
        return np.full(shape, 1 << (scheme.bits - 1), np.uint8)
    out_size, groups = shape
    packed_shape = (words_for(out_size, scheme.bits), groups)
    words = take(source, f"{name}.weight_zero_point", packed_shape, np.int32)
    return np.ascontiguousarray(unpack(words.T, scheme.bits, out_size).T)
