"""Terms on which workers are wanted."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScalingTerms:
    """Settings of the decision how many workers a model needs."""

    target_use: float = 0.85
    """Share of the workers' capacity in use above which more are wanted."""
    low_use: float = 0.6
    """Share of the capacity of fewer workers that would have to suffice before any is given up."""
    first_token_seconds: float = 1.0
    """Time within which waiting prompts are to be computed."""
    settle_seconds: float = 300.0
    """Seconds for which fewer workers must have sufficed before any is given up."""
    idle_seconds: float = 600.0
    """Seconds without any request after which no worker is wanted."""
    start_seconds: float = 30.0
    """Time in which a new worker is ready, until one was seen to start."""
