"""Every accepted request, from accept to its one outcome."""

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from headrace.domain.deadline import Deadline
from headrace.errors import HeadraceError, Overloaded, RequestCancelled
from headrace.errors.table import message_of, row_of
from headrace.gateway.timing.latency_budgets import LatencyBudgets
from headrace.gateway.timing.recent_requests import RecentRequests
from headrace.gateway.timing.request_metrics import (
    REQUEST_DURATION,
    REQUESTS,
    count_cached,
    count_stages,
    exemplar_of,
)
from headrace.gateway.timing.request_record import RequestRecord

POLL_SECONDS = 0.02

_log = logging.getLogger(__name__)


def note_refusal(error: Exception, record: RequestRecord | None = None) -> None:
    """Counts the outcome of a request that ended before it was admitted, as that of no model."""
    outcome = row_of(error).code
    if record is not None:
        if record.is_admitted:
            return
        record.model = ""
        record.note_failure(outcome, message_of(error))
    REQUESTS.labels(model="", outcome=outcome).inc()
    _log.info("request refused", extra={"outcome": outcome})


@dataclass(slots=True, eq=False)
class LedgerEntry:
    """One open request."""

    request_id: str
    model: str
    record: RequestRecord = field(default_factory=RequestRecord)


class Ledger:
    """Opens and closes entries. `open_request` is the only way in, and every way out of it closes the entry once."""

    def __init__(
        self, max_open: int, budgets: LatencyBudgets | None = None, recent: RecentRequests | None = None
    ) -> None:
        """`budgets`: judge of the latency of requests to generate. `recent`: memory of requests that have ended."""
        self.recent = recent or RecentRequests()
        self._max_open = max_open
        self._budgets = budgets
        self._open: set[LedgerEntry] = set()

    def __len__(self) -> int:
        return len(self._open)

    def open_counts(self) -> dict[str, int]:
        """Open requests by model."""
        counts: dict[str, int] = {}
        for entry in list(self._open):
            counts[entry.model] = counts.get(entry.model, 0) + 1
        return counts

    def open_records(self) -> list[RequestRecord]:
        """Records of the requests that are open."""
        return [entry.record for entry in list(self._open)]

    async def wait_until_empty(self, deadline: Deadline) -> None:
        """Waits until every request has ended, or until the deadline."""
        while self._open and not deadline.expired:  # noqa: ASYNC110 - once in the life of a process
            await asyncio.sleep(POLL_SECONDS)

    @contextmanager
    def open_request(self, request_id: str, model: str, record: RequestRecord | None = None) -> Iterator[LedgerEntry]:
        """Opens the entry of one request for the block. Raises Overloaded when too many are open."""
        if len(self._open) >= self._max_open:
            REQUESTS.labels(model=model, outcome="overloaded").inc()
            raise Overloaded(f"{self._max_open} requests are open already", stage="accept", retry_after=1)
        entry = LedgerEntry(request_id, model, record or RequestRecord())
        self._open.add(entry)
        outcome = "finished"
        try:
            yield entry
        except HeadraceError as error:
            outcome = row_of(error).code
            entry.record.note_failure(outcome, message_of(error))
            raise
        except BaseException as error:
            shown = RequestCancelled() if not isinstance(error, Exception) else error
            outcome = row_of(shown).code
            entry.record.note_failure(outcome, message_of(shown))
            raise
        finally:
            self._open.discard(entry)
            self._settle(entry, outcome)

    def _settle(self, entry: LedgerEntry, outcome: str) -> None:
        record, model = entry.record, entry.model
        record.outcome = outcome
        duration = time.monotonic() - record.stopwatch.started
        REQUESTS.labels(model=model, outcome=outcome).inc()
        REQUEST_DURATION.labels(model=model, outcome=outcome).observe(duration, exemplar_of(record.trace_id))
        if outcome == "finished":
            count_stages(model, record.stages())
            if record.is_generation:
                count_cached(model, record.cached_places())
            if record.first_sent is None and record.first_token is not None:
                record.observe_first_token(record.first_token)
        if self._budgets is not None and record.is_generation:
            self._budgets.judge(record)
        _log.info("request ended", extra={"model": entry.model, "outcome": outcome, "seconds": round(duration, 6)})
