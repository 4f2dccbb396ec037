"""Bound of the digits of a JSON number.

A small model that is held to a grammar writes `1111…` until its limit, as every digit may follow another. The
bound is that of llama.cpp's grammars for JSON: 16 digits before the point and 16 after it; two of an exponent keep
every number finite.
"""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MAX_DIGITS, MAX_EXPONENT_DIGITS = 16, 2
TAIL_BYTES = 2 * MAX_DIGITS + MAX_EXPONENT_DIGITS + 8
"""Bytes that the longest number has, with what stands before it."""
_NUMBER = re.compile(rb"(?:^|[\[{(:,= \n])-?(?P<whole>\d+)(?:\.(?P<part>\d*))?(?:[eE][+-]?(?P<exponent>\d*))?$")
_DIGITS = b"0123456789"
_LETTERS = frozenset(b"abcdfghijklmnopqrstuvwxyzABCDFGHIJKLMNOPQRSTUVWXYZ")
"""All but those of an exponent."""


class NumberBound:
    """Forbids tokens that would make a number too long. Holds for one vocabulary."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        """`pieces`: the bytes of every token, by id."""
        self._pieces = pieces
        digits = [len(piece) - len(piece.lstrip(_DIGITS)) for piece in pieces]
        self._digit_counts = np.minimum(digits, 127).astype(np.int8)
        """Digits at the beginning of each token."""
        self._most_digits = max(digits, default=0)
        self._has_letter = np.fromiter((piece[:1] != b"" and piece[0] in _LETTERS for piece in pieces), np.bool_)

    def tail(self, tail: bytes, added: Sequence[int]) -> bytes:
        """Returns the end of an output that ended with `tail`, after tokens were added."""
        return (tail + b"".join(self._pieces[token_id] for token_id in added))[-TAIL_BYTES:]

    def narrow(self, tail: bytes, forbidden: NDArray[np.bool_]) -> None:
        """Forbids in place, after an output that ends with `tail`, the digits beyond the bound. Leaves texts alone, in
        which letters may follow, and numbers that nothing but digits can complete."""
        room = digits_left(tail)
        if room is None or room >= self._most_digits:
            return
        count = len(self._digit_counts)
        if not forbidden[:count][self._has_letter].all():
            return
        narrowed = forbidden.copy()
        narrowed[:count] |= self._digit_counts > room
        if not narrowed.all():
            forbidden[:] = narrowed


def digits_left(tail: bytes) -> int | None:
    """Returns how many digits may follow a number at the end of a text; None where there is no number."""
    match = _NUMBER.search(tail)
    if match is None:
        return None
    if match["exponent"] is not None:
        return max(0, MAX_EXPONENT_DIGITS - len(match["exponent"]))
    digits = match["whole"] if match["part"] is None else match["part"]
    return max(0, MAX_DIGITS - len(digits))
