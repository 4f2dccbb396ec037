"""Settings of the scheduling policy."""

from dataclasses import dataclass, field

from headrace.scheduler.core.demand.scaling_terms import ScalingTerms
from headrace.scheduler.core.fleet.transfer_terms import TransferTerms
from headrace.scheduler.core.foresight.refusal_terms import RefusalTerms


@dataclass(frozen=True, slots=True)
class Policy:
    """Limits of every model."""

    max_waiting_count: int = 2048
    """Maximum number of requests that wait for a model."""
    max_waiting_token_count: int = 4_000_000
    """Maximum number of prompt tokens that wait for a model."""
    max_batch_size: int = 64
    """Maximum number of requests in one dispatch."""
    max_batch_token_count: int = 16_384
    """Maximum number of prompt tokens that wait on one worker, unless a single prompt is longer."""
    max_window_seconds: float = 0.05
    """Longest time that a request waits for others to form a batch with."""
    no_worker_seconds: float = 15.0
    """Time that requests wait while no worker serves their model."""
    starvation_seconds: float = 30.0
    """Time after which the oldest request gets every fourth turn, whatever its class."""
    transfer: TransferTerms = field(default_factory=TransferTerms)
    """Terms on which prompts are computed on another worker than their requests."""
    refusal: RefusalTerms = field(default_factory=RefusalTerms)
    """Terms on which requests are refused before they are late."""
    scaling: ScalingTerms = field(default_factory=ScalingTerms)
    """Terms on which workers are wanted."""
