"""Codes less their zero point, as numbers."""

import triton
import triton.language as tl


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
