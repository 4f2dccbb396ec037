"""Numbers that the codes of quantized weights stand for."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

MANTISSA_BITS = {4: 1, 8: 3}
"""Mantissas by the bits of a code: E2M1 of OCP Microscaling Formats 1.0 (2023), E4M3 of Micikevicius et al., FP8
Formats for Deep Learning (2022)."""


@cache
def code_numbers(bits: int, *, is_float: bool) -> NDArray[np.float32]:
    """Returns the number of each code, fp32 [2**bits]: the code itself as an integer, or what it means as E2M1 in 4
    bits and E4M3 in 8. Two codes of E4M3, 127 and 255, are no number."""
    codes = np.arange(1 << bits)
    if not is_float:
        return codes.astype(np.float32)
    mantissa_bits = MANTISSA_BITS[bits]
    bias = (1 << (bits - 2 - mantissa_bits)) - 1
    magnitudes = codes & ((1 << (bits - 1)) - 1)
    exponents, mantissas = magnitudes >> mantissa_bits, magnitudes & ((1 << mantissa_bits) - 1)
    is_normal = exponents > 0
    significands = mantissas / (1 << mantissa_bits) + is_normal
    numbers = np.ldexp(significands, np.where(is_normal, exponents, 1) - bias).astype(np.float32)
    if bits == 8:
        numbers[magnitudes == 0x7F] = np.nan
    signed: NDArray[np.float32] = np.where(codes >> (bits - 1), -numbers, numbers)
    return signed
