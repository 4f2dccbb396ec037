"""State of one model of several, for others to see."""

from dataclasses import dataclass

from headrace.engine.residency.policy.residence import Residence


@dataclass(frozen=True, slots=True)
class ResidentStatus:
    """Residence, expectation and counts since the start."""

    residence: Residence = Residence.AWAKE
    predicted_wait_seconds: float = 0.0
    """Time until a request that comes now finds the model awake."""
    load_count: int = 0
    wake_count: int = 0
    sleep_count: int = 0
    drop_count: int = 0
    out_of_memory_count: int = 0
    is_pinned: bool | None = None
    """Whether it stays awake whatever other models are wanted. None: it is never put to sleep."""
