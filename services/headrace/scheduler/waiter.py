"""The interface of those who wait for a place, and the place that they get."""

from dataclasses import dataclass
from typing import Protocol

from headrace.errors import HeadraceError
from headrace.scheduler.core.queueing.ticket import Ticket


@dataclass(frozen=True, slots=True)
class Place:
    """The worker that took a request over."""

    worker_id: str
    worker_address: str
    worker_epoch: int


class Waiter(Protocol):
    """Client of the scheduler that waits for a place."""

    def placed(self, ticket: Ticket, place: Place) -> None:
        """Tells that a worker took the request over."""

    def refused(self, ticket: Ticket, error: HeadraceError) -> None:
        """Tells that the request gets no place."""
