"""Requests that this worker has accepted and that have not ended."""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from headrace.domain.ids import AttemptId, attempt_id, trace_attributes
from headrace.telemetry.traces import is_recorded, record_span
from headrace.worker.requests.frame import Timings
from headrace.worker.transfer.fetching.fetched_tokens import FetchedTokens


@dataclass(slots=True)
class Session:
    """One accepted attempt of one request."""

    request_id: str
    attempt: int
    gateway_id: str
    traceparent: str
    pausable: bool = False
    """Whether it makes room for a realtime request if need be."""
    prompt_count: int = 0
    """Tokens to compute before the first one comes, but for cached ones."""
    expiry: asyncio.TimerHandle | None = None
    accepted_time: float = field(default_factory=time.time)
    """Time at which the request was accepted. Unix seconds."""
    started_time: float | None = None
    """Time at which the first step that included the request began. Unix seconds."""
    first_token_time: float | None = None
    fetched: FetchedTokens | None = None
    """Tokens of its prompt that were fetched before it began, if it waited for some."""

    @property
    def engine_id(self) -> AttemptId:
        return attempt_id(self.request_id, self.attempt)

    def note_fetched(self, fetched: FetchedTokens) -> None:
        """Notes what was fetched before it began."""
        self.fetched = fetched

    def timings(self, end_time: float) -> Timings:
        """Measures the stages of a session that ends at `end_time`, in Unix seconds."""
        seconds = (max(0.0, end - start) for start, end in self._stages(end_time))
        return Timings(*seconds)

    def record_spans(self, end_time: float) -> None:
        """Records the stages of a session that ends at `end_time`, in Unix seconds, as spans of the request's trace."""
        if not is_recorded(self.traceparent):
            return
        attributes = trace_attributes(self.request_id, self.attempt)
        for name, (start, end) in zip(("queue", "prefill", "decode"), self._stages(end_time), strict=True):
            if end > start:
                record_span(name, self.traceparent, start, end, attributes)

    def _stages(self, end_time: float) -> tuple[tuple[float, float], ...]:
        started = self.started_time or end_time
        first_token = self.first_token_time or end_time
        return (self.accepted_time, started), (started, first_token), (first_token, end_time)


class Sessions:
    """Index of all sessions by engine id. One attempt per request: a newer one replaces the older."""

    def __init__(self) -> None:
        self._by_engine_id: dict[str, Session] = {}
        self._attempts: dict[str, Session] = {}
        self.pausable_count = 0
        self.emptied = asyncio.Event()
        """Event that is set while there is no session."""
        self.emptied.set()

    def __len__(self) -> int:
        return len(self._by_engine_id)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._by_engine_id.values()))

    def open(self, session: Session, lifetime: float, on_expiry: Callable[[Session], None]) -> Session | None:
        """Adds a session for at most `lifetime` seconds. Returns the older attempt that it replaced, now closed."""
        replaced = self._attempts.get(session.request_id)
        if replaced is not None:
            self.close(replaced.engine_id)
        session.expiry = asyncio.get_running_loop().call_later(lifetime, on_expiry, session)
        self._by_engine_id[session.engine_id] = session
        self._attempts[session.request_id] = session
        self.pausable_count += session.pausable
        self.emptied.clear()
        return replaced

    def get(self, engine_id: str) -> Session | None:
        return self._by_engine_id.get(engine_id)

    def newest_attempt(self, request_id: str) -> int:
        """Returns the attempt held for a request; 0 when there is none."""
        session = self._attempts.get(request_id)
        return session.attempt if session else 0

    def of_request(self, request_id: str) -> Session | None:
        return self._attempts.get(request_id)

    def of_gateway(self, gateway_id: str) -> list[Session]:
        return [session for session in self._by_engine_id.values() if session.gateway_id == gateway_id]

    def close(self, engine_id: str) -> None:
        """Forgets a session. An unknown id is ignored."""
        session = self._by_engine_id.pop(engine_id, None)
        if session is None:
            return
        self.pausable_count -= session.pausable
        if session.expiry is not None:
            session.expiry.cancel()
        if self._attempts.get(session.request_id) is session:
            del self._attempts[session.request_id]
        if not self._by_engine_id:
            self.emptied.set()
