"""Change of the number of workers that a model needs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScalingDecision:
    """One change, and what it was made for."""

    time: float
    """Seconds of the scheduler's clock."""
    before: int
    after: int
    signal: str
    """Name of the figure that decided: requests, prompts, memory, idle or arrival."""
    reason: str
    otherwise: str
    """Expected consequence of leaving the number as it was."""
