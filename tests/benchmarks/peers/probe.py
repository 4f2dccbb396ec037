"""Probe of what the machine gives at the moment: it is shared, and its speed drifts."""

import time

import torch

BYTES = 512 << 20


def read_bandwidth(threads: int) -> float:
    """GB/s of reading memory that no cache holds, the best of three."""
    torch.set_num_threads(threads)
    numbers = torch.ones(BYTES // 8, dtype=torch.int64)
    best = 0.0
    for _ in range(3):
        started = time.monotonic()
        numbers.sum()
        best = max(best, BYTES / (time.monotonic() - started) / 1e9)
    return best
