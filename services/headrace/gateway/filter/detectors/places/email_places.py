"""Places of e-mail addresses."""

import numpy as np

from headrace.gateway.filter.detectors.places.character_codes import (
    Codes,
    Mask,
    Places,
    ahead,
    among,
    begins_word,
    last_before,
    run_ends,
)

_MOST_LOCAL, _MOST_DOMAIN = 64, 253
"""Characters before the @, and behind it up to the last dot."""
_LETTERS = bytes(range(ord("A"), ord("Z") + 1)) + bytes(range(ord("a"), ord("z") + 1))
_LOCAL = _LETTERS + b"0123456789._%+-"
_DOMAIN = _LETTERS + b"0123456789.-"


def email_places(codes: Codes) -> Places:
    """Returns where addresses begin."""
    signs = np.flatnonzero(codes == ord("@"))
    signs = signs[signs < len(codes) - 1]
    if not len(signs):
        return signs
    is_sign = np.zeros(len(codes) + 1, np.bool_)
    is_sign[signs[_have_domain(codes, signs)]] = True
    is_local = among(codes, _LOCAL)
    places = np.flatnonzero(is_local & begins_word(codes))
    ends = run_ends(is_local)[places]
    return places[is_sign[ends] & (ends - places <= _MOST_LOCAL)]


def _have_domain(codes: Codes, signs: Places) -> Mask:
    """Returns behind which signs a name stands, a dot and two letters."""
    is_letter = among(codes, _LETTERS)
    is_last_dot = (codes == ord(".")) & ahead(is_letter, 1) & ahead(is_letter, 2)
    end = np.minimum(run_ends(among(codes, _DOMAIN))[signs + 1], signs + 2 + _MOST_DOMAIN)
    have: Mask = last_before(is_last_dot)[end - 1] >= signs + 2
    return have
