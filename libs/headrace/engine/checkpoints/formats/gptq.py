"""GPTQ (Frantar et al., 2022), as AutoGPTQ and GPTQModel write it.

qweight int32 [in * bits / 32, out], packed along inputs; qzeros int32 [groups, out * bits / 32], packed along outputs;
scales float [groups, out]; g_idx int32 [in]: the group of each input. W = (code - zero) * scale. The first version of
the layout stores zero - 1.
"""

import logging

import numpy as np
from numpy.typing import NDArray

from headrace.engine.checkpoints.facts.scheme import QuantizationScheme
from headrace.engine.checkpoints.formats.bit_packing import unpack, words_for
from headrace.engine.checkpoints.weights.quantized_arrays import Codes, QuantizedArrays
from headrace.engine.checkpoints.weights.tensor_source import TensorSource, check_divisible, take, take_scales
from headrace.errors.tree import InvalidCheckpoint

_log = logging.getLogger(__name__)
_PACK_UNIT = 32
"""Sizes must be multiples of this, so that values of any width fill whole words."""


def read(source: TensorSource, name: str, out_size: int, in_size: int, scheme: QuantizationScheme) -> QuantizedArrays:
    """Reads module `name`. Raises InvalidCheckpoint naming the invalid tensor."""
    bits, group_size = scheme.bits, scheme.group_size or in_size
    check_divisible(name, "the output size", out_size, _PACK_UNIT // bits if _PACK_UNIT % bits == 0 else _PACK_UNIT)
    check_divisible(name, "the input size", in_size, _PACK_UNIT // bits if _PACK_UNIT % bits == 0 else _PACK_UNIT)
    groups = -(-in_size // group_size)
    words = take(source, f"{name}.qweight", (words_for(in_size, bits), out_size), np.int32)
    codes = unpack(words.T, bits, in_size)
    scales = take_scales(source, f"{name}.scales", (groups, out_size)).T
    zeros = _zeros(source, name, (groups, out_size), scheme).T
    order = read_input_order(source, name, in_size, group_size)
    if order is not None:
        codes = codes[:, order]
    whole = np.ascontiguousarray
    return QuantizedArrays(whole(codes), whole(scales), whole(zeros), bits, group_size, order)


def _zeros(source: TensorSource, name: str, shape: tuple[int, int], scheme: QuantizationScheme) -> Codes:
    """Reads the zero points uint8 [groups, out]. Symmetric files all mean the middle code, whatever layout they claim:
    some are labeled as the first version and written as the second."""
    groups, out_size = shape
    words = take(source, f"{name}.qzeros", (groups, words_for(out_size, scheme.bits)), np.int32)
    stored = unpack(words, scheme.bits, out_size)
    middle = 1 << (scheme.bits - 1)
    if not scheme.symmetric:
        mask = (1 << scheme.bits) - 1
        return ((stored.astype(np.int16) + scheme.zero_offset) & mask).astype(np.uint8)
    values = set(np.unique(stored).tolist())
    if values not in ({middle}, {middle - 1}):
        raise InvalidCheckpoint(
            f"tensor {name}.qzeros of a symmetric checkpoint holds {sorted(values)}; expected {middle} or {middle - 1}"
        )
    if values == {middle} and scheme.zero_offset:
        _log.warning("%s is labelled gptq but written as gptq_v2, and is read as gptq_v2", name)
    return np.full(shape, middle, np.uint8)


def read_input_order(source: TensorSource, name: str, in_size: int, group_size: int) -> NDArray[np.int64] | None:
    """Sorts columns by group, for files quantized in order of activation size (desc_act). None if already sorted."""
    if f"{name}.g_idx" not in source:
        return None
    groups = take(source, f"{name}.g_idx", (in_size,), np.int32, np.int64).astype(np.int64)
    expected = np.arange(in_size) // group_size
    if np.array_equal(groups, expected):
        return None
    order = np.argsort(groups, kind="stable")
    if not np.array_equal(groups[order], expected):
        raise InvalidCheckpoint(f"tensor {name}.g_idx does not put {group_size} inputs into every group")
    return order
