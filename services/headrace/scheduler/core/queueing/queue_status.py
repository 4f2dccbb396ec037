"""Status of a model's queue at one moment."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """Requests that wait for one model, and how long they will."""

    model: str
    waiting_count: int
    window_seconds: float
    """Longest time that a request waits for others to form a batch with."""
    expected_wait_seconds: float
    """Time after which a request that came now would get a place."""
    fence: int
    """Fencing number under which this scheduler leads the model. 0: it has no lease."""
    wanted_worker_count: int | None = None
    """Workers that are wanted. None: nothing is known of the model."""
