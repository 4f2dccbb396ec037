"""Percentile of measured or simulated latencies."""

from collections.abc import Sequence


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Interpolates linearly between closest ranks. None without values."""
    if not values:
        return None
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)
