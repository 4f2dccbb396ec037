"""Journal of recent events and decisions, which explains why a request went where it went."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.domain.ids import belongs_to
from headrace.scheduler.core.decisions import Decision, Dispatch, Expire, Reject
from headrace.scheduler.core.events import Accepted, Cancelled, Event, Failed, Refused, Settled, Submitted

CAPACITY = 8192
"""Newest entries that are kept."""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One event and its decisions."""

    time: float
    """Seconds of the scheduler's clock."""
    event: Event
    decisions: tuple[Decision, ...]


class Journal:
    """Keeps the newest entries that are about requests. Reports and ticks that decide nothing are left out, unless
    `complete`: such a journal, given to another core, makes it decide the same."""

    def __init__(self, capacity: int = CAPACITY, *, complete: bool = False) -> None:
        self._entries: deque[JournalEntry] = deque(maxlen=capacity)
        self._complete = complete

    def record(self, event: Event, now: float, decisions: list[Decision]) -> None:
        """Adds an entry."""
        about_request = isinstance(event, Submitted | Cancelled | Accepted | Refused | Failed | Settled)
        if self._complete or about_request or any(isinstance(one, Dispatch | Reject | Expire) for one in decisions):
            self._entries.append(JournalEntry(now, event, tuple(decisions)))

    def __iter__(self) -> Iterator[JournalEntry]:
        return iter(self._entries)

    def about(self, request_id: str) -> list[JournalEntry]:
        """Entries in which a request occurs, oldest first. A request has one sequence or more, whose ids begin with
        its own."""
        return [entry for entry in self._entries if any(belongs_to(name, request_id) for name in _names(entry))]


def _names(entry: JournalEntry) -> Iterator[str]:
    match entry.event:
        case Submitted(ticket) | Accepted(ticket) | Refused(ticket) | Failed(ticket):
            yield ticket.request_id
        case Cancelled(_, key):
            yield key
        case Settled(_, request_id):
            yield request_id
    for decision in entry.decisions:
        match decision:
            case Dispatch():
                yield from (member.ticket.request_id for member in decision.members)
            case Reject(ticket) | Expire(ticket):
                yield ticket.request_id
