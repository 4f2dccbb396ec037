"""The scheduler's settings."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from headrace.lifecycle import ServiceSettings
from headrace.scheduler.core.demand.scaling_terms import ScalingTerms
from headrace.scheduler.core.fleet.transfer_terms import TransferTerms
from headrace.scheduler.core.foresight.refusal_terms import RefusalTerms
from headrace.scheduler.core.policy import Policy
from headrace.scheduler.core.queueing.urgency import Urgency
from headrace.settings.addresses import Addresses

ClassName = Literal["realtime", "interactive", "default", "batch"]


def _split(value: object) -> object:
    """Splits `interactive,realtime`, or the same with spaces, into a tuple."""
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value


ClassNames = Annotated[tuple[ClassName, ...], BeforeValidator(_split)]
"""Names of classes of requests, separated by commas or spaces. There may be none."""


class SchedulerSettings(ServiceSettings):
    """Settings of the scheduler service."""

    service_id: str = "scheduler"
    """Unique name of this process."""
    cache_addresses: Addresses = ("127.0.0.1:9103",)
    """Addresses of the caches. While none is there, requests are placed without asking who holds their prefix."""
    workers_file: Path | None = None
    """File that keeps the addresses of workers, by which it finds them when it starts while NATS is away."""
    max_waiting_count: int = Field(default=2048, ge=1)
    """Maximum number of requests waiting per model. More are refused as overloaded."""
    max_waiting_token_count: int = Field(default=4_000_000, ge=1)
    """Maximum number of prompt tokens waiting per model. More are refused as overloaded."""
    max_window_seconds: float = Field(default=0.05, ge=0, le=0.05)
    """Longest time that a request waits for others to form a batch with."""
    max_batch_size: int = Field(default=64, ge=1)
    """Maximum number of requests in one dispatch."""
    max_batch_token_count: int = Field(default=16_384, ge=1)
    """Maximum number of prompt tokens that wait on one worker, but for a single longer prompt."""
    no_worker_seconds: float = Field(default=15.0, gt=0)
    """Time for which requests wait for a worker while their model has none."""
    starvation_seconds: float = Field(default=30.0, gt=0)
    """Time after which the oldest request gets every fourth turn, whatever its class."""
    refused_past_deadline_classes: ClassNames = ("realtime", "interactive", "default")
    """Classes whose requests are refused at once if, by prediction, no worker can end them before their deadline."""
    refused_late_classes: ClassNames = ()
    """Classes whose requests are refused at once if, by prediction, no worker can give their first token in the time
    that they, or their class, want it."""
    least_transfer_token_count: int = Field(default=512, ge=1)
    """Fewest tokens that a worker lacks of a prompt for which its KV blocks are fetched from another worker."""
    assumed_transfer_rate: float = Field(default=1e9, gt=0)
    """Bytes per second at which KV blocks are assumed to travel until a worker has measured it."""
    scaling_target_use: float = Field(default=0.85, gt=0, le=1)
    """Share of the workers' capacity in use above which more workers are wanted."""
    scaling_low_use: float = Field(default=0.6, gt=0, le=1)
    """Share of the capacity of fewer workers that would have to suffice before any is given up."""
    scaling_first_token_seconds: float = Field(default=1.0, gt=0)
    """Time within which waiting prompts are to be computed."""
    scaling_settle_seconds: float = Field(default=300.0, gt=0)
    """Time for which fewer workers must have sufficed before any is given up."""
    scaling_idle_seconds: float = Field(default=600.0, gt=0)
    """Time without any request after which no worker is wanted."""
    scaling_start_seconds: float = Field(default=30.0, gt=0)
    """Time in which a new worker is ready, until one was seen to start."""
    dispatch_seconds: float = Field(default=1.0, gt=0)
    """Deadline of one dispatch call. A worker only queues what it is given, so that it answers at once."""

    def policy(self) -> Policy:
        """The part that the core follows."""
        return Policy(
            max_waiting_count=self.max_waiting_count,
            max_waiting_token_count=self.max_waiting_token_count,
            max_batch_size=self.max_batch_size,
            max_batch_token_count=self.max_batch_token_count,
            max_window_seconds=self.max_window_seconds,
            no_worker_seconds=self.no_worker_seconds,
            starvation_seconds=self.starvation_seconds,
            transfer=TransferTerms(self.least_transfer_token_count, self.assumed_transfer_rate),
            refusal=RefusalTerms(
                past_deadline=frozenset(Urgency[name.upper()] for name in self.refused_past_deadline_classes),
                late=frozenset(Urgency[name.upper()] for name in self.refused_late_classes),
            ),
            scaling=ScalingTerms(
                target_use=self.scaling_target_use,
                low_use=self.scaling_low_use,
                first_token_seconds=self.scaling_first_token_seconds,
                settle_seconds=self.scaling_settle_seconds,
                idle_seconds=self.scaling_idle_seconds,
                start_seconds=self.scaling_start_seconds,
            ),
        )
