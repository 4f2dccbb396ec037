"""Places of telephone numbers."""

import numpy as np

from headrace.gateway.filter.detectors.places.character_codes import (
    Codes,
    Mask,
    Places,
    ahead,
    ahead_all,
    among,
    begins_word,
    between,
    first_from,
    running_sums,
)

_MAX_INNER = 60
"""Maximum number of characters between the first digits of a number and its last."""


def phone_places(codes: Codes, min_digits: int, min_local_digits: int) -> Places:
    """Returns where numbers begin: with the code of a country, which have `min_digits`, without one, which have
    `min_local_digits`, and North American ones."""
    is_digit = between(codes, "0", "9")
    if np.count_nonzero(is_digit) < min_digits:
        return np.empty(0, np.int64)
    begins = _with_country(codes, is_digit, min_digits) | _local(codes, is_digit, min_local_digits)
    return np.flatnonzero(begins | (_north_american(codes, is_digit) & begins_word(codes)))


def _with_country(codes: Codes, is_digit: Mask, least: int) -> Mask:
    begins = (codes == ord("+")) & ahead(is_digit, 1)
    return _has_digits(begins, is_digit, among(codes, b"0123456789 ().-"), 1, 1 + _MAX_INNER + 1, least)


def _local(codes: Codes, is_digit: Mask, least: int) -> Mask:
    allowed = among(codes, b"0123456789 ()-")
    is_zero = codes == ord("0")
    plain = is_zero & begins_word(codes)
    marked = _has_digits(plain, is_digit, allowed, 0, 1 + _MAX_INNER + 1, least)
    bracketed = (codes == ord("(")) & ahead(is_zero, 1)
    if bracketed.any():
        closes = [ahead_all(is_digit, 2, 2 + count) & ahead(codes == ord(")"), 2 + count) for count in range(1, 6)]
        bracketed &= np.logical_or.reduce(closes)
        marked |= _has_digits(bracketed, is_digit, allowed, 1, 7 + _MAX_INNER + 1, least)
    return marked


def _has_digits(begins: Mask, is_digit: Mask, allowed: Mask, skipped: int, length: int, least: int) -> Mask:
    """Returns which of the places that `begins` marks have enough digits within `length` characters, not counting those
    `skipped` first, all of which are allowed."""
    places = np.flatnonzero(begins)
    places = places[places + skipped < len(begins)]
    if not len(places):
        return np.zeros_like(begins)
    counts = running_sums(is_digit)
    end = np.minimum(first_from(~allowed, places + skipped), places + skipped + length)
    marked = np.zeros_like(begins)
    marked[places[counts[end] - counts[places + skipped] >= least]] = True
    return marked


def _north_american(codes: Codes, is_digit: Mask) -> Mask:
    """Returns where three digits, three and four begin, the first three perhaps in brackets."""
    is_separator, three = among(codes, b" .-"), ahead_all(is_digit, 0, 3)
    rest = is_separator & ahead(three, 1) & ahead(is_separator, 4) & ahead(three, 5)
    if not rest.any():
        return rest
    rest &= ahead(is_digit, 8) & ~ahead(is_digit, 9)
    area = between(codes, "2", "9") & three
    bracketed = (codes == ord("(")) & ahead(area & ahead(codes == ord(")"), 3), 1)
    begins: Mask = (area & ahead(rest, 3)) | (bracketed & ahead(rest, 5))
    return begins
