"""Every accepted request, from accept to its one outcome."""

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from prometheus_client import Counter, Histogram

from headrace.errors import HeadraceError, Overloaded, RequestCancelled
from headrace.errors.table import row_of
from headrace.rpc.deadline import Deadline

LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)

REQUEST_DURATION = Histogram(
    "headrace_request_duration_seconds", "From accept to the outcome", ["model"], buckets=LATENCY_BUCKETS
)
REQUESTS = Counter("headrace_requests", "Requests by outcome", ["model", "outcome"])

POLL_SECONDS = 0.02

_log = logging.getLogger(__name__)


def note_refusal(error: Exception) -> None:
    """Counts the outcome of a request that ended before its model was known."""
    outcome = row_of(error).code
    REQUESTS.labels(model="", outcome=outcome).inc()
    _log.info("request refused", extra={"outcome": outcome})


@dataclass(slots=True, eq=False)
class Entry:
    """One open request."""

    request_id: str
    model: str
    accepted: float = field(default_factory=time.monotonic)
    """Time at which the request was accepted, in monotonic seconds."""


class Ledger:
    """Opens and closes entries. `open_request` is the only way in, and every way out of it closes the entry once."""

    def __init__(self, max_open: int) -> None:
        self._max_open = max_open
        self._open: set[Entry] = set()

    def __len__(self) -> int:
        return len(self._open)

    def open_counts(self) -> dict[str, int]:
        """Open requests by model."""
        counts: dict[str, int] = {}
        for entry in list(self._open):
            counts[entry.model] = counts.get(entry.model, 0) + 1
        return counts

    async def wait_until_empty(self, deadline: Deadline) -> None:
        """Waits until every request has ended, or until the deadline."""
        while self._open and not deadline.expired:  # noqa: ASYNC110 - once in the life of a process
            await asyncio.sleep(POLL_SECONDS)

    @contextmanager
    def open_request(self, request_id: str, model: str) -> Iterator[Entry]:
        """Opens the entry of one request for the block. Raises Overloaded when too many are open."""
        if len(self._open) >= self._max_open:
            REQUESTS.labels(model=model, outcome="overloaded").inc()
            raise Overloaded(f"{self._max_open} requests are open already", stage="accept", retry_after=1)
        entry = Entry(request_id, model)
        self._open.add(entry)
        outcome = "finished"
        try:
            yield entry
        except HeadraceError as error:
            outcome = row_of(error).code
            raise
        except BaseException as error:
            outcome = row_of(RequestCancelled() if not isinstance(error, Exception) else error).code
            raise
        finally:
            self._open.discard(entry)
            self._settle(entry, outcome)

    def _settle(self, entry: Entry, outcome: str) -> None:
        duration = time.monotonic() - entry.accepted
        REQUESTS.labels(model=entry.model, outcome=outcome).inc()
        REQUEST_DURATION.labels(model=entry.model).observe(duration)
        _log.info("request ended", extra={"model": entry.model, "outcome": outcome, "seconds": round(duration, 6)})
