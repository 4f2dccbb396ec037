"""Places of keys and passwords with known beginnings."""

import numpy as np

from headrace.gateway.filter.detectors.places.character_codes import (
    Codes,
    Mask,
    Places,
    ahead,
    ahead_all,
    alphanumeric,
    among,
    begins_word,
    between,
    run_ends,
    spelled,
)

_PEM_BEGIN, _PEM_END = b"-----BEGIN ", b"PRIVATE KEY-----"
_MOST_PEM = 30
"""Most characters between the two."""


def secret_places(codes: Codes) -> Places:
    """Returns where keys of OpenAI's, Stripe's, AWS's, GitHub's and Slack's form begin, and private keys in PEM."""
    is_word = alphanumeric(codes) & (codes < 0x80)
    hyphened, upper = is_word | (codes == ord("-")), between(codes, "A", "Z") | between(codes, "0", "9")
    begins = np.zeros(len(codes), np.bool_)
    dashed = ahead(codes == ord("-"), 2)
    _mark(begins, among(codes, b"spr") & ahead(codes == ord("k"), 1) & dashed, 3, hyphened | (codes == ord("_")), 16)
    begins |= _aws(codes, upper, is_word)
    _mark(
        begins, spelled(codes, b"gh") & ahead(among(codes, b"pousr"), 2) & ahead(codes == ord("_"), 3), 4, is_word, 36
    )
    slack = spelled(codes, b"xox") & ahead(among(codes, b"abprs"), 3) & ahead(codes == ord("-"), 4)
    _mark(begins, slack, 5, hyphened, 10)
    return np.flatnonzero((begins & begins_word(codes)) | _pem(codes))


def _aws(codes: Codes, upper: Mask, is_word: Mask) -> Mask:
    heads = spelled(codes, b"AKIA")
    return heads & ahead_all(upper, 4, 20) & ~ahead(is_word, 20) if heads.any() else heads


def _mark(begins: Mask, heads: Mask, head_length: int, body: Mask, least: int) -> None:
    """Marks the heads behind which at least so many characters of a body stand."""
    places = np.flatnonzero(heads)
    if len(places):
        places = places[places + head_length < len(begins)]
        begins[places[run_ends(body)[places + head_length] - places - head_length >= least]] = True


def _pem(codes: Codes) -> Mask:
    """Returns where the first lines of private keys begin."""
    marked = np.zeros(len(codes), np.bool_)
    places, ends = np.flatnonzero(spelled(codes, _PEM_BEGIN)), np.flatnonzero(spelled(codes, _PEM_END))
    if len(places) and len(ends):
        behind = places + len(_PEM_BEGIN)
        following = np.append(ends, len(codes))[np.searchsorted(ends, behind)]
        allowed = run_ends(between(codes, "A", "Z") | (codes == ord(" ")))
        behind = np.minimum(behind, len(codes) - 1)
        fits = (following - behind <= _MOST_PEM) & ((allowed[behind] >= following) | (following == behind))
        marked[places[fits]] = True
    return marked
