"""Confidence interval of a share, where neighbors in time are alike."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

SLICE_COUNT = 20
CERTAIN = 2.09
"""Standard errors of 95 % with 19 degrees of freedom (Student's t)."""


def slice_interval(hits: Sequence[bool]) -> tuple[float, float] | None:
    """Returns the ends of an interval of 95 % for the share of hits, in the order of time. None: there are too few.

    Requests that wait in one queue are late together, so slices of time are taken to be independent, and not requests
    (batch means: Law and Carson, 1979)."""
    size = len(hits) // SLICE_COUNT
    if not size:
        return None
    shares = [fmean(hits[number * size : (number + 1) * size]) for number in range(SLICE_COUNT)]
    half, mean = CERTAIN * stdev(shares) / math.sqrt(SLICE_COUNT), fmean(hits)
    return max(0.0, mean - half), min(1.0, mean + half)
