"""Integers of 2, 3, 4 and 8 bits packed into 32-bit words, low bits first."""

import numpy as np
from numpy.typing import NDArray

WORD_BITS = 32


def words_for(count: int, bits: int) -> int:
    """Counts the words for `count` values. A 3-bit value may straddle two words; 32 of them fill three."""
    return -(-count * bits // WORD_BITS)


def unpack(words: NDArray[np.int32], bits: int, count: int) -> NDArray[np.uint8]:
    """Unpacks int32 [..., words] to uint8 [..., count], in order along the last dimension."""
    # Negative words mean unsigned ones, whose right shifts bring in no sign bits.
    wide = np.ascontiguousarray(words).view(np.uint32)
    mask = np.uint32((1 << bits) - 1)
    if WORD_BITS % bits:
        return _unpack_straddling(wide, bits, count)
    # Value by value of a word, so that no intermediate result is larger than the input.
    per_word = WORD_BITS // bits
    values = np.empty((*wide.shape, per_word), np.uint8)
    for index in range(per_word):
        values[..., index] = (wide >> np.uint32(index * bits)) & mask
    return np.ascontiguousarray(values.reshape(*wide.shape[:-1], -1)[..., :count])


def _unpack_straddling(words: NDArray[np.uint32], bits: int, count: int) -> NDArray[np.uint8]:
    wide = words.astype(np.uint64)
    positions = np.arange(count) * bits
    low, offset = positions // WORD_BITS, (positions % WORD_BITS).astype(np.uint64)
    high = np.minimum(low + 1, wide.shape[-1] - 1)
    joined = (wide[..., low] >> offset) | (wide[..., high] << (np.uint64(WORD_BITS) - offset))
    return (joined & np.uint64((1 << bits) - 1)).astype(np.uint8)
