"""Codes less their zero point, as numbers."""

import triton
import triton.language as tl

from headrace.engine.triton.kernel_registry import is_interpreted

IS_INTERPRETED = tl.constexpr(is_interpreted())


@triton.jit
def center_codes(codes, zero, dtype: tl.constexpr, bits: tl.constexpr):
    """Subtracts zero points int32 from codes int32, both of `bits` bits, and returns numbers of `dtype` (fp32, fp16 or
    bf16), exact.

    A code becomes a number without a conversion, which costs as much as four other instructions: it is written into the
    low bits of a power of two whose last bit counts 1. 2**7 + code needs the 7 bits of bf16, 2**10 + code the 10 of
    fp16, and 2**23 + code the 23 of fp32. The power falls out of the difference. bf16 has no room for codes of 8 bits,
    but for their differences, which are at most 255.
    """
    if dtype == tl.float16:
        numbers = (codes | 0x6400).to(tl.int16).to(tl.float16, bitcast=True)
        centered = numbers - (zero | 0x6400).to(tl.int16).to(tl.float16, bitcast=True)
    elif dtype == tl.bfloat16 and bits == 4:
        numbers = (codes | 0x4300).to(tl.int16).to(tl.bfloat16, bitcast=True)
        centered = numbers - (zero | 0x4300).to(tl.int16).to(tl.bfloat16, bitcast=True)
    else:
        numbers = (codes | 0x4B000000).to(tl.float32, bitcast=True)
        centered = (numbers - (zero | 0x4B000000).to(tl.float32, bitcast=True)).to(dtype)
    return centered


@triton.jit
def center_pair(words, zero, shift: tl.constexpr, dtype: tl.constexpr, bits: tl.constexpr):
    """Returns what `center_codes` does for the codes of words int32 that lie `shift` bits from the start of both
    halves: those of an even plane, and of the odd one after it.

    Where a number has 16 bits, both are cut out and written into their powers of two by one instruction (Frantar et
    al., Marlin, 2024).
    """
    mask: tl.constexpr = (1 << bits) - 1
    if dtype == tl.float32 or (dtype == tl.bfloat16 and bits == 8):
        even = center_codes((words >> shift) & mask, zero, dtype, bits)
        odd = center_codes((words >> (shift + 16)) & mask, zero, dtype, bits)
    else:
        power: tl.constexpr = 0x6400 if dtype == tl.float16 else 0x4300
        pairs = _cut_pairs(words >> shift, mask << 16 | mask, power << 16 | power)
        origin = (zero | power).to(tl.int16).to(dtype, bitcast=True)
        even = pairs.to(tl.int16).to(dtype, bitcast=True) - origin
        odd = (pairs >> 16).to(tl.int16).to(dtype, bitcast=True) - origin
    return even, odd


@triton.jit
def _cut_pairs(words, mask: tl.constexpr, powers: tl.constexpr):
    # The compiler would cut out each half by an instruction of its own; this one it cannot take apart.
    if IS_INTERPRETED:
        pairs = (words & mask) | powers
    else:
        pairs = tl.inline_asm_elementwise(
            "lop3.b32 $0, $1, $2, $3, 0xEA;", "=r,r,r,r", [words, mask, powers], dtype=tl.int32, is_pure=True, pack=1
        )
    return pairs
