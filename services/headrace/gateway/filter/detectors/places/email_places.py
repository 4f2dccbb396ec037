"""Places of e-mail addresses."""

import numpy as np

from headrace.gateway.filter.detectors.places.character_codes import (
    Codes,
    Mask,
    Places,
    ahead,
    among,
    begins_word,
    first_from,
    last_until,
    letters,
    marked,
)

_MAX_LOCAL, _MAX_DOMAIN = 64, 253
"""Characters before the @, and behind it up to the last dot."""
_LETTERS = bytes(range(ord("A"), ord("Z") + 1)) + bytes(range(ord("a"), ord("z") + 1))
_LOCAL = _LETTERS + b"0123456789._%+-"
_DOMAIN = _LETTERS + b"0123456789.-"


def email_places(codes: Codes) -> Places:
    """Returns where addresses begin."""
    signs = np.flatnonzero(codes == ord("@"))
    signs = signs[signs < len(codes) - 1]
    signs = signs[_have_domain(codes, signs)] if len(signs) else signs
    if not len(signs):
        return signs
    is_sign = np.zeros(len(codes) + 1, np.bool_)
    is_sign[signs] = True
    is_local = among(codes, _LOCAL)
    places = np.flatnonzero(is_local & begins_word(codes))
    ends = first_from(~is_local, places)
    return marked(places, is_sign.take(ends) & (ends - places <= _MAX_LOCAL))


def _have_domain(codes: Codes, signs: Places) -> Mask:
    """Returns behind which signs a name stands, a dot and two letters."""
    is_letter = letters(codes)
    is_last_dot = (codes == ord(".")) & ahead(is_letter, 1) & ahead(is_letter, 2)
    if not is_last_dot.any():
        return np.zeros(len(signs), np.bool_)
    end = np.minimum(first_from(~among(codes, _DOMAIN), signs + 1), signs + 2 + _MAX_DOMAIN)
    have: Mask = last_until(is_last_dot, end - 1) >= signs + 2
    return have
