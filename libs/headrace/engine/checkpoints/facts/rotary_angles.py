"""Angles that rotate the pairs of a head at each position (RoFormer, Su et al., 2021)."""

import numpy as np

from headrace.engine.checkpoints.facts.rope_scaling import Floats, RopeScaling, plain_frequencies

SECTION = 4096
"""Number of positions computed together: intermediate results take more memory than the final ones."""


def rotary_angles(rotary_size: int, theta: float, scaling: RopeScaling | None, max_len: int) -> tuple[Floats, Floats]:
    """Computes cosines and sines, each fp32 [max_len, rotary/2]. The angles are products in fp32, as in training; their
    cosines and sines are rounded from fp64, so that they are the same on every machine."""
    if scaling is None:
        frequencies, factor = plain_frequencies(rotary_size, theta), 1.0
    else:
        frequencies, factor = scaling.frequencies(rotary_size, theta, max_len), scaling.attention_factor
    cosine, sine = (np.empty((max_len, rotary_size // 2), np.float32) for _ in range(2))
    for begin in range(0, max_len, SECTION):
        end = min(begin + SECTION, max_len)
        angles = (np.arange(begin, end, dtype=np.float32)[:, None] * frequencies).astype(np.float64)
        cosine[begin:end] = np.cos(angles) * factor
        sine[begin:end] = np.sin(angles) * factor
    return cosine, sine
