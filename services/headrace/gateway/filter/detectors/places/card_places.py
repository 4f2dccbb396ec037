"""Places of card numbers (ISO/IEC 7812)."""

import numpy as np

from headrace.gateway.filter.detectors.places.character_codes import (
    Codes,
    Places,
    among,
    begins_word,
    between,
    last_until,
    marked,
    running_sums,
)
from headrace.gateway.filter.detectors.places.linked_runs import LinkedRuns

_MIN, _MAX = 13, 19
"""Digits of a card number."""


def card_places(codes: Codes) -> Places:
    """Returns where numbers begin that have the right length and check digit (Luhn)."""
    is_digit = between(codes, "0", "9")
    if np.count_nonzero(is_digit) < _MIN:
        return np.empty(0, np.int64)
    runs = LinkedRuns.of(is_digit, among(codes, b" -"))
    if runs.longest < _MIN:
        return np.empty(0, np.int64)
    following: Places = np.subtract(runs.ends, np.arange(len(runs.ends), dtype=np.int32))
    numbers = np.flatnonzero(begins_word(codes).take(runs.places) & (following >= _MIN))
    last = _last_digits(runs, numbers, following)
    fits = np.flatnonzero(last - numbers >= _MIN - 1)
    numbers, last = numbers.take(fits), last.take(fits)
    if not len(numbers):
        return numbers
    sums = _luhn_sums(codes.take(runs.places) - np.uint8(ord("0")), numbers, last)
    found: Places = runs.places.take(marked(numbers, (sums % 10 == 0) & (sums > 0)))
    return found


def _last_digits(runs: LinkedRuns, numbers: Places, following: Places) -> Places:
    """Returns the number of the last digit of the longest card number that begins at each: one behind which no digit
    follows directly. `following`: how many digits there are in its run from each on."""
    lengths = np.minimum(following, np.int32(_MAX)).take(numbers)
    return last_until(~runs.is_adjacent, numbers + lengths - 1)


def _luhn_sums(digits: Codes, first: Places, last: Places) -> Places:
    """Returns the sums of the digits from each first to each last, every second one from the right doubled."""
    doubled = digits * np.uint8(2) - np.uint8(9) * (digits > 4)
    # One table for both parities of the last digit, so that each sum is two look-ups.
    sums = np.concatenate([_alternating_sums(digits, doubled), _alternating_sums(doubled, digits)])
    table = (last & 1) * (len(digits) + 1)
    stretches: Places = sums.take(table + last + 1) - sums.take(table + first)
    return stretches


def _alternating_sums(evens: Codes, odds: Codes) -> Places:
    """Returns running sums of the first values at even places, and of the second at odd ones."""
    values = evens.copy()
    values[1::2] = odds[1::2]
    return running_sums(values)
