"""Characters of a text as numbers of one byte, for searches over many of them at once."""

import functools

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint8]
Mask = NDArray[np.bool_]
Places = NDArray[np.signedinteger]
OTHER_LETTER, OTHER = 0x80, 0x81
"""Codes of all letters and digits outside of ASCII, and of all other characters outside of it."""
_ALNUM = np.array([chr(code).isalnum() if code < OTHER_LETTER else code == OTHER_LETTER for code in range(256)])


def codes_of(text: str) -> Codes:
    """Returns the code of each character: its own in ASCII."""
    if text.isascii():
        return np.frombuffer(text.encode(), np.uint8)
    return _code_table()[np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)]


def among(codes: Codes, characters: bytes) -> Mask:
    """Returns which characters are among those given."""
    table = np.zeros(256, np.bool_)
    table[list(characters)] = True
    return table[codes]


def between(codes: Codes, first: str, last: str) -> Mask:
    """Returns which characters lie between two, both included."""
    return (codes - np.uint8(ord(first))) <= ord(last) - ord(first)


def alphanumeric(codes: Codes) -> Mask:
    """Returns which characters are letters or digits of any script."""
    return _ALNUM[codes]


def begins_word(codes: Codes) -> Mask:
    """Returns which characters are not inside a word: they or the ones before them are no letters or digits."""
    inside = alphanumeric(codes)
    inside[1:] &= inside[:-1].copy()
    inside[:1] = False
    return ~inside


def ahead(mask: Mask, distance: int) -> Mask:
    """Returns what `mask` says of the character `distance` further on; False beyond the end."""
    moved, kept = np.empty_like(mask), max(0, len(mask) - distance)
    moved[:kept] = mask[distance:]
    moved[kept:] = False
    return moved


def ahead_all(mask: Mask, begin: int, end: int) -> Mask:
    """Returns where `mask` holds for all characters from `begin` to `end`, exclusive, further on."""
    return functools.reduce(np.logical_and, [ahead(mask, distance) for distance in range(begin, end)])


def spelled(codes: Codes, literal: bytes) -> Mask:
    """Returns where a literal begins."""
    return functools.reduce(np.logical_and, [ahead(codes == code, at) for at, code in enumerate(literal)])


def run_ends(mask: Mask) -> Places:
    """Returns for each character the place of the first one, from it on, of which `mask` is False."""
    ends = np.where(mask, np.int32(len(mask)), np.arange(len(mask), dtype=np.int32))
    return np.minimum.accumulate(ends[::-1])[::-1]


def last_before(mask: Mask) -> Places:
    """Returns for each character the place of the last one, up to it, of which `mask` is True; -1 if there is none."""
    return np.maximum.accumulate(np.where(mask, np.arange(len(mask), dtype=np.int32), np.int32(-1)))


def running_sums(values: NDArray[np.generic]) -> Places:
    """Returns for each place, and for the end, the sum of the values before it."""
    sums = np.zeros(len(values) + 1, np.int32)
    np.cumsum(values, dtype=np.int32, out=sums[1:])
    return sums


@functools.cache
def _code_table() -> Codes:
    table = np.full(0x110000, OTHER, np.uint8)
    table[:OTHER_LETTER] = np.arange(OTHER_LETTER)
    letters = [code for code in range(OTHER_LETTER, 0x110000) if chr(code).isalnum()]
    table[letters] = OTHER_LETTER
    return table
