"""Places of bank account numbers (IBAN, ISO 13616)."""

import functools
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from headrace.gateway.filter.detectors.places.character_codes import (
    Codes,
    Places,
    ahead_all,
    begins_word,
    between,
    running_sums,
)
from headrace.gateway.filter.detectors.places.linked_runs import LinkedRuns

_PRIME = 97
_PERIOD = 96
"""Powers of ten repeat modulo 97 after so many."""
_POWERS = np.array([pow(10, exponent, _PRIME) for exponent in range(_PERIOD)], np.uint8)
_INVERSES = np.array([pow(10, -exponent, _PRIME) for exponent in range(_PERIOD)], np.uint8)


class IbanPlaces:
    """Finds where numbers begin that have a country's length and the right check digits (ISO 7064, mod 97-10)."""

    def __init__(self, lengths: Mapping[str, int]) -> None:
        """`lengths`: characters of an IBAN, by country."""
        self._lengths = np.full((256, 256), 1 << 20, np.int64)
        for country, length in lengths.items():
            self._lengths[ord(country[0]), ord(country[1])] = length

    def __call__(self, codes: Codes) -> Places:
        is_letter, is_digit = between(codes, "A", "Z"), between(codes, "0", "9")
        begins = begins_word(codes) & ahead_all(is_letter, 0, 2) & ahead_all(is_digit, 2, 4)
        if not begins.any():
            return np.empty(0, np.int64)
        runs = LinkedRuns.of(is_letter | is_digit, codes == ord(" "))
        first = np.flatnonzero(begins[runs.places])
        places = runs.places[first]
        length = self._lengths[codes[places], codes[places + 1]]
        fits = length <= runs.ends[first] - first
        first, length = first[fits], length[fits]
        found: Places = runs.places[first[_remainders(codes[runs.places], first, first + length) == 1]]
        return found


@functools.cache
def _tables(bits: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Returns the powers of ten modulo 97, and their inverses, up to an exponent of so many bits: looking one up takes
    less time than the remainder of its exponent."""
    return np.resize(_POWERS, 1 << bits), np.resize(_INVERSES, 1 << bits)


def _remainders(characters: Codes, first: Places, end: Places) -> Places:
    """Returns, modulo 97, the numbers that the characters from `first` to `end` stand for with the first four moved to
    the end. Letters count from A = 10, as two digits.

    A character adds its value times a power of ten, so that with sums from the left, each divided by the power at its
    place, any stretch is the difference of two sums."""
    is_letter = characters > ord("9")
    # Without a choice between the two, which the processor would predict wrongly in such texts.
    values = characters - np.uint8(ord("0")) - is_letter * np.uint8(ord("A") - 10 - ord("0"))
    digit_counts = running_sums(np.uint8(1) + is_letter)
    powers, inverses = _tables(int(digit_counts[-1]).bit_length())
    sums = running_sums(np.multiply(values, inverses.take(digit_counts[1:]), dtype=np.int16))

    def stretch(begin: Places, end: Places) -> Places:
        return (sums.take(end) - sums.take(begin)) % _PRIME * powers.take(digit_counts.take(end))

    head_digits = digit_counts.take(first + 4) - digit_counts.take(first)
    remainders: Places = (stretch(first + 4, end) * _POWERS.take(head_digits) + stretch(first, first + 4)) % _PRIME
    return remainders
