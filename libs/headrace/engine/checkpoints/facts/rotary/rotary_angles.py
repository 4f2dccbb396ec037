"""Angles that rotate the pairs of a head at each position (RoFormer, Su et al., 2021)."""

import numpy as np

from headrace.engine.checkpoints.facts.rotary.rope_scaling import Floats, RopeScaling, plain_frequencies

SECTION = 4096
"""Number of positions computed together: intermediate results take more memory than the final ones."""


def rotary_angles(rotary_size: int, theta: float, scaling: RopeScaling | None, max_len: int) -> tuple[Floats, Floats]:
    """Computes cosines and sines, each fp32 [max_len, rotary/2]. The angles are products in fp32, as in training; their
    cosines and sines are rounded from fp64, so that they are the same on every machine."""
    frequencies, factor = _frequencies(rotary_size, theta, scaling, max_len)
    cosine, sine = (np.empty((max_len, rotary_size // 2), np.float32) for _ in range(2))
    for begin in range(0, max_len, SECTION):
        end = min(begin + SECTION, max_len)
        angles = (np.arange(begin, end, dtype=np.float32)[:, None] * frequencies).astype(np.float64)
        cosine[begin:end] = np.cos(angles) * factor
        sine[begin:end] = np.sin(angles) * factor
    return cosine, sine


def angles_are_finite(rotary_size: int, theta: float, scaling: RopeScaling | None, max_len: int) -> bool:
    """Tells whether every angle that `rotary_angles` would compute is a finite number."""
    if not 0 < theta <= float(np.finfo(np.float32).max):
        return False
    with np.errstate(all="ignore"):
        frequencies, factor = _frequencies(rotary_size, theta, scaling, max_len)
        return bool(np.isfinite(frequencies * np.float32(max_len)).all()) and bool(np.isfinite(np.float32(factor)))


def _frequencies(rotary_size: int, theta: float, scaling: RopeScaling | None, max_len: int) -> tuple[Floats, float]:
    """Returns the frequency of each pair, fp32 [rotary/2], and the factor of cosines and sines."""
    if scaling is None:
        return plain_frequencies(rotary_size, theta), 1.0
    return scaling.frequencies(rotary_size, theta, max_len), scaling.attention_factor
