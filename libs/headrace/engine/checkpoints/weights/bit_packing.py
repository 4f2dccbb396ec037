"""Integers of 2, 3, 4 and 8 bits packed into 32-bit words, low bits first."""

import torch
from torch import Tensor

WORD_BITS = 32


def words_for(count: int, bits: int) -> int:
    """Counts the words for `count` values. A 3-bit value may straddle two words; 32 of them fill three."""
    return -(-count * bits // WORD_BITS)


def unpack(words: Tensor, bits: int, count: int) -> Tensor:
    """Unpacks int32 [..., words] to uint8 [..., count], in order along the last dimension."""
    # Negative words mean unsigned ones; in int64, right shifts do not bring in sign bits.
    wide = words.to(torch.int64) & 0xFFFFFFFF
    if WORD_BITS % bits == 0:
        shifts = torch.arange(0, WORD_BITS, bits, device=words.device)
        values = (wide.unsqueeze(-1) >> shifts) & ((1 << bits) - 1)
        return values.flatten(-2)[..., :count].to(torch.uint8)
    return _unpack_straddling(wide, bits, count)


def pack(values: Tensor, bits: int) -> Tensor:
    """Packs uint8 [..., count] to int32 [..., words]: the inverse of `unpack`. The count must fill whole words."""
    wide = values.to(torch.int64)
    positions = torch.arange(values.shape[-1], device=values.device) * bits
    words = torch.zeros((*values.shape[:-1], words_for(values.shape[-1], bits) + 1), dtype=torch.int64)
    low = positions // WORD_BITS
    shifted = wide << (positions % WORD_BITS)
    words.index_add_(-1, low, shifted & 0xFFFFFFFF)
    words.index_add_(-1, low + 1, shifted >> WORD_BITS)
    words = words[..., :-1]
    return torch.where(words >= 1 << 31, words - (1 << 32), words).to(torch.int32)


def _unpack_straddling(wide: Tensor, bits: int, count: int) -> Tensor:
    positions = torch.arange(count, device=wide.device) * bits
    low, offset = positions // WORD_BITS, positions % WORD_BITS
    high = torch.clamp(low + 1, max=wide.shape[-1] - 1)
    joined = (wide[..., low] >> offset) | (wide[..., high] << (WORD_BITS - offset))
    return (joined & ((1 << bits) - 1)).to(torch.uint8)
