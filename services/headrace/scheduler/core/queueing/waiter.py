"""Interface of those who wait for a place: the request that they hand in, and the place that they get."""

from dataclasses import dataclass
from typing import Protocol

from headrace.errors import HeadraceError
from headrace.scheduler.core.queueing.ticket import Ticket


@dataclass(frozen=True, slots=True)
class Order:
    """The part of a request that only workers read: a generation as it came over the wire, passed on unread."""

    generation: bytes
    """A serialized Generation."""
    priority_class: int
    """Number of the PriorityClass."""
    traceparent: str
    """W3C trace context of the request; empty when it has none."""


@dataclass(frozen=True, slots=True)
class Place:
    """The worker that took a request over."""

    worker_id: str
    worker_address: str
    worker_epoch: int
    queue_seconds: float = 0.0
    """Seconds for which the request was queued before it was dispatched."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to one attempt of a request: a place, or the error by which it gets none."""

    request_id: str
    attempt: int
    outcome: Place | HeadraceError


class Waiter(Protocol):
    """Client of the scheduler that waits for a place."""

    def placed(self, ticket: Ticket, place: Place) -> None:
        """Tells that a worker took the request over."""

    def refused(self, ticket: Ticket, error: HeadraceError) -> None:
        """Tells that the request gets no place."""
