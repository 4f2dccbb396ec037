"""Buckets of distances between two tokens, which share a bias (Raffel et al., 2019)."""

import math

import numpy as np
from numpy.typing import NDArray

FARTHEST = 128
"""Distances from this one on share one bucket."""


def relative_buckets(distances: NDArray[np.int64], bucket_count: int) -> NDArray[np.int64]:
    """Maps distances, each key position minus query position, to `bucket_count` buckets. Short distances have one each
    and long ones logarithmic ones; each direction has half of them. Rounds as transformers does, in fp32."""
    half = bucket_count // 2
    exact = half // 2
    far = np.abs(distances)
    ratios = np.maximum(far, 1).astype(np.float32) / np.float32(exact)
    # Logarithms are rounded from fp64, which makes them the same on every machine.
    logarithms = np.log(ratios.astype(np.float64)).astype(np.float32)
    share = logarithms / np.float32(math.log(FARTHEST / exact))
    logarithmic = exact + (share * np.float32(half - exact)).astype(np.int64)
    return half * (distances > 0) + np.where(far < exact, far, np.minimum(logarithmic, half - 1))
