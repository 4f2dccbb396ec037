"""Floating-point codes as numbers: E2M1 in 4 bits (OCP Microscaling Formats 1.0), E4M3 in 8 (Micikevicius et al.)."""

import triton
import triton.language as tl


@triton.jit
def float_codes(codes, dtype: tl.constexpr, bits: tl.constexpr):
    """Returns the numbers of `dtype` (fp32, fp16 or bf16) that codes int32 of `bits` bits stand for, exact.

    Exponent and mantissa are written where the wider type has them, subnormal ones too, which makes a number that is
    too small by a power of two: that of the difference of both biases.
    """
    mantissa: tl.constexpr = 10 if dtype == tl.float16 else 7
    if dtype == tl.float32:
        placed = ((codes & _magnitudes(bits)) << _shift(bits, 23)) | (codes >> (bits - 1) << 31)
        numbers = placed.to(tl.float32, bitcast=True)
    else:
        placed = ((codes & _magnitudes(bits)) << _shift(bits, mantissa)) | (codes >> (bits - 1) << 15)
        numbers = placed.to(tl.int16).to(dtype, bitcast=True)
    return numbers * _power_of(bits, dtype)


@triton.jit
def float_pair(words, shift: tl.constexpr, dtype: tl.constexpr, bits: tl.constexpr):
    """Returns what `float_codes` does for the codes of words int32 that lie `shift` bits from the start of both halves:
    those of an even plane, and of the odd one after it. Numbers of 16 bits are both placed by the same instructions."""
    mask: tl.constexpr = (1 << bits) - 1
    if dtype == tl.float32:
        even = float_codes((words >> shift) & mask, dtype, bits)
        odd = float_codes((words >> (shift + 16)) & mask, dtype, bits)
    else:
        sign: tl.constexpr = 1 << (bits - 1)
        mantissa: tl.constexpr = 10 if dtype == tl.float16 else 7
        codes = words >> shift
        placed = (codes & (_magnitudes(bits) << 16 | _magnitudes(bits))) << _shift(bits, mantissa)
        placed = placed | ((codes & (sign << 16 | sign)) << (16 - bits))
        power = _power_of(bits, dtype)
        even = placed.to(tl.int16).to(dtype, bitcast=True) * power
        odd = (placed >> 16).to(tl.int16).to(dtype, bitcast=True) * power
    return even, odd


@triton.jit
def _power_of(bits: tl.constexpr, dtype: tl.constexpr):
    """Returns two to the difference of the biases, as a number of the wider type."""
    bias: tl.constexpr = 15 if dtype == tl.float16 else 127
    return tl.full((), _power(bits, bias), tl.float32).to(dtype)


@triton.constexpr_function
def _magnitudes(bits):
    """Returns the mask of a code without its sign."""
    return (1 << (bits - 1)) - 1


@triton.constexpr_function
def _shift(bits, mantissa_bits):
    """Returns the places between the mantissa of a code and that of the wider type."""
    return mantissa_bits - (1 if bits == 4 else 3)


@triton.constexpr_function
def _power(bits, bias):
    """Returns two to the difference of the biases."""
    return 2.0 ** (bias - (1 if bits == 4 else 7))
