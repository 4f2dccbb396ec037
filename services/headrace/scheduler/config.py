"""The scheduler's settings."""

from pydantic import Field

from headrace.service import ServiceSettings


class SchedulerSettings(ServiceSettings):
    """Settings of the scheduler service."""

    service_id: str = "scheduler"
    """Unique name of this process."""
    cache_address: str = "127.0.0.1:9103"
    """Where the cache is. While it is away, requests are placed without asking who holds their prefix."""
    max_waiting_count: int = Field(default=2048, ge=1)
    """Most requests waiting per model. More are refused as overloaded."""
    max_window_seconds: float = Field(default=0.05, ge=0, le=0.05)
    """Longest time that a request waits for others to form a batch with."""
    max_batch_size: int = Field(default=64, ge=1)
    """Most requests in one dispatch."""
    max_batch_token_count: int = Field(default=16_384, ge=1)
    """Most prompt tokens in one dispatch. A single longer prompt goes alone."""
    no_worker_seconds: float = Field(default=15.0, gt=0)
    """How long requests wait for a worker while their model has none."""
    silence_seconds: float = Field(default=3.0, gt=0)
    """A worker that has been silent for this long gets no new requests."""
    dispatch_seconds: float = Field(default=3.0, gt=0)
    """Deadline of one dispatch call."""
