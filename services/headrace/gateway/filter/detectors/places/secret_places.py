"""Places of keys and passwords with known beginnings."""

from collections.abc import Mapping

import numpy as np

from headrace.gateway.filter.detectors.places.character_codes import (
    Codes,
    Places,
    among,
    between,
    first_from,
    letters,
    marked,
    spelled,
    that_begin_words,
)

_DIGITS = b"0123456789"
_AWS_LENGTH = 20

_PEM_BEGIN, _PEM_END = b"-----BEGIN ", b"PRIVATE KEY-----"
_MAX_PEM = 30
"""Maximum number of characters between the two."""


def secret_places(codes: Codes) -> Places:
    """Returns where keys of OpenAI's, Stripe's, AWS's, GitHub's and Slack's form begin, and private keys in PEM."""
    keys = [
        _with_body(codes, _heads(codes, b"k-", {-1: b"spr"}) - 1, 3, b"-_", 16),
        _with_body(codes, _heads(codes, b"gh", {2: b"pousr", 3: b"_"}), 4, b"", 36),
        _with_body(codes, _heads(codes, b"xox", {3: b"abprs", 4: b"-"}), 5, b"-", 10),
        _aws(codes),
    ]
    begins = np.zeros(len(codes), np.bool_)
    for places in filter(len, keys):
        begins[that_begin_words(codes, places)] = True
    begins[_pem(codes)] = True
    return np.flatnonzero(begins)


def _heads(codes: Codes, literal: bytes, others: Mapping[int, bytes]) -> Places:
    """Returns where a literal stands with others of some characters at a distance from its beginning."""
    places = spelled(codes, literal)
    for distance, characters in others.items() if len(places) else ():
        places = marked(places, (places + distance >= 0) & (places + distance < len(codes)))
        places = marked(places, among(codes.take(places + distance), characters))
    return places


def _with_body(codes: Codes, heads: Places, head_length: int, marks: bytes, least: int) -> Places:
    """Returns the heads behind which at least so many letters, digits and marks stand."""
    heads = marked(heads, heads + head_length < len(codes))
    if not len(heads):
        return heads
    is_body = letters(codes) | among(codes, _DIGITS + marks)
    behind = heads + head_length
    return marked(heads, first_from(~is_body, behind) - behind >= least)


def _aws(codes: Codes) -> Places:
    heads = spelled(codes, b"AKIA")
    heads = heads[heads + _AWS_LENGTH <= len(codes)]
    if not len(heads):
        return heads
    is_upper = between(codes, "A", "Z") | between(codes, "0", "9")
    heads = marked(heads, first_from(~is_upper, heads + 4) >= heads + _AWS_LENGTH)
    inside = heads + _AWS_LENGTH < len(codes)
    behind = codes.take(np.minimum(heads + _AWS_LENGTH, len(codes) - 1))
    return marked(heads, ~(inside & (letters(behind) | between(behind, "0", "9"))))


def _pem(codes: Codes) -> Places:
    """Returns where the first lines of private keys begin."""
    places, ends = spelled(codes, _PEM_BEGIN), spelled(codes, _PEM_END)
    if not len(places) or not len(ends):
        return places[:0]
    behind = places + len(_PEM_BEGIN)
    following = np.append(ends, len(codes))[np.searchsorted(ends, behind)]
    behind = np.minimum(behind, len(codes) - 1)
    allowed = first_from(~(between(codes, "A", "Z") | (codes == ord(" "))), behind)
    return marked(places, (following - behind <= _MAX_PEM) & ((allowed >= following) | (following == behind)))
