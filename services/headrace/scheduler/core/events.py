"""Everything that can happen to the scheduler."""

from dataclasses import dataclass

from headrace.scheduler.core.fleet.worker import WorkerReport
from headrace.scheduler.core.queueing.ticket import Ticket


@dataclass(frozen=True, slots=True)
class Submitted:
    """A request wants a place."""

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A ticket was cancelled: its request no longer needs a place."""

    model: str
    key: str


@dataclass(frozen=True, slots=True)
class WorkerReported:
    """A worker reported its load on a connection to it."""

    report: WorkerReport
    answers: bool = False
    """Whether the worker answered a call, which shows that requests reach it, and not only its reports reach us."""


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """The connection to a worker broke, or a call to it failed."""

    model: str
    worker_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class WorkerLeft:
    """A worker stopped voluntarily."""

    model: str
    worker_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Accepted:
    """A worker took a ticket over."""

    ticket: Ticket
    worker_id: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A worker had no room for a ticket, which waits again."""

    ticket: Ticket
    worker_id: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A worker did not take a ticket for another reason, or it is unknown whether it did. The ticket is over."""

    ticket: Ticket
    worker_id: str


@dataclass(frozen=True, slots=True)
class Settled:
    """A placed request ended after so many output tokens."""

    model: str
    request_id: str
    output_token_count: int
    first_token_seconds: float | None = None
    """Time from the worker's acceptance to the first token. None: not known, or it changed the worker before."""


@dataclass(frozen=True, slots=True)
class LeadLost:
    """Another scheduler leads a model now."""

    model: str


@dataclass(frozen=True, slots=True)
class LeaderWanted:
    """The scheduler that leads a model wants so many workers."""

    model: str
    wanted_count: int


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed. Expected five times a second."""


Event = (
    Submitted
    | Cancelled
    | WorkerReported
    | WorkerLost
    | WorkerLeft
    | Accepted
    | Refused
    | Failed
    | Settled
    | LeadLost
    | LeaderWanted
    | Tick
)
