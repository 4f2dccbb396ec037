"""Limits within which models are loaded and put to sleep."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ResidencyLimits:
    """Budgets in bytes, and times in seconds."""

    awake_bytes: int
    """Maximum bytes of weights and KV caches of all models that are awake."""
    asleep_bytes: int
    """Maximum bytes of weights of all models that are asleep in host memory."""
    stay_seconds: float = 1.0
    """Time that a model stays awake at least, which bounds the rate of swaps."""
    patience_seconds: float = 2.0
    """Time that requests wait for a busy model to run empty, before it is put to sleep in the middle of its
    requests."""
    retry_seconds: float = 2.0
    """Time for which a model that could not be loaded is not tried again."""
    idle_seconds: float = math.inf
    """Time without a request after which a model leaves memory. Pinned models stay."""
