"""Places of card numbers (ISO/IEC 7812)."""

import numpy as np

from headrace.gateway.filter.detectors.places.character_codes import (
    Codes,
    Places,
    among,
    begins_word,
    between,
    last_before,
    running_sums,
)
from headrace.gateway.filter.detectors.places.linked_runs import LinkedRuns

_LEAST, _MOST = 13, 19
"""Digits of a card number."""


def card_places(codes: Codes) -> Places:
    """Returns where numbers begin that have the right length and check digit (Luhn)."""
    is_digit = between(codes, "0", "9")
    if np.count_nonzero(is_digit) < _LEAST:
        return np.empty(0, np.int64)
    runs = LinkedRuns.of(is_digit, among(codes, b" -"))
    numbers = np.flatnonzero(begins_word(codes)[runs.places])
    numbers = numbers[runs.ends[numbers] - numbers >= _LEAST]
    last = _last_digits(runs, numbers)
    fits = last - numbers >= _LEAST - 1
    numbers, last = numbers[fits], last[fits]
    if not len(numbers):
        return numbers
    sums = _luhn_sums(codes[runs.places] - np.uint8(ord("0")), numbers, last)
    found: Places = runs.places[numbers[(sums % 10 == 0) & (sums > 0)]]
    return found


def _last_digits(runs: LinkedRuns, numbers: Places) -> Places:
    """Returns the number of the last digit of the longest card number that begins at each: one behind which no digit
    follows directly."""
    last: Places = last_before(~runs.is_adjacent)[np.minimum(numbers + _MOST, runs.ends[numbers]) - 1]
    return last


def _luhn_sums(digits: Codes, first: Places, last: Places) -> Places:
    """Returns the sums of the digits from each first to each last, every second one from the right doubled."""
    doubled = np.array([sum(divmod(2 * digit, 10)) for digit in range(10)], np.uint8)[digits]
    is_even = np.arange(len(digits)) % 2 == 0
    even, odd = (running_sums(np.where(plain, digits, doubled)) for plain in (is_even, ~is_even))
    return np.where(last % 2 == 0, even[last + 1] - even[first], odd[last + 1] - odd[first])
