"""Everything that the scheduler can decide."""

import enum
from dataclasses import dataclass

from headrace.scheduler.core.fleet.predictions import FirstToken
from headrace.scheduler.core.member import Member
from headrace.scheduler.core.queueing.ticket import Ticket


class Reason(enum.Enum):
    """Reason why a ticket gets no place."""

    QUEUE_FULL = "queue_full"
    """Too many requests, or too many tokens, wait for the model."""
    DISPLACED = "displaced"
    """The queue was full, and a more urgent request came."""
    LATE = "late"
    """No worker could meet the request's deadline, or the time of its first token."""
    NO_WORKER = "no_worker"
    """No worker has served the model for longer than requests wait."""
    NO_ADAPTER = "no_adapter"
    """There are workers, and none has the adapter."""
    NOT_LEADING = "not_leading"
    """Another scheduler leads the model now."""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Hand tickets over to a worker, most urgent first."""

    worker_id: str
    epoch: int
    address: str
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Preempt:
    """Tell that a worker pauses sequences of the batch class for what was just dispatched to it."""

    worker_id: str
    count: int


@dataclass(frozen=True, slots=True)
class Reject:
    """Tell the waiter that its ticket gets no place."""

    ticket: Ticket
    reason: Reason
    retry_after: float
    """Seconds after which a place is expected."""


@dataclass(frozen=True, slots=True)
class Expire:
    """Tell the waiter that the deadline of its ticket passed before there was a place."""

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class Compare:
    """Tell how well the first token of a request was predicted."""

    model: str
    request_id: str
    first_token: FirstToken


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send a Tick at this time."""

    time: float


Decision = Dispatch | Preempt | Reject | Expire | Compare | WakeAt
