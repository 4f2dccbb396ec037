"""Wish of a client to read on in a stream."""

import time
from dataclasses import dataclass

from headrace.errors import DeadlineExceeded
from headrace.gateway.request.client_timeout import MAX_TIMEOUT_MS, TIMEOUT_HEADER
from headrace.gateway.resumption.event_id import EventId
from headrace.gateway.resumption.streamed_request import StreamedRequest
from headrace.v1.worker_pb2 import TokenDelta


@dataclass(frozen=True, slots=True)
class Resumption:
    """Stream as its journal has it, and the place after which it is to be read."""

    stream_id: str
    request: StreamedRequest
    known: TokenDelta
    """Tokens so far. With a finish reason there are no others."""
    after: EventId | None = None
    """Place of the last event that the client has. None: it has none."""

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left to compute."""
        return bool(self.known.finish_reason)

    def terms(self, own_seconds: float | None) -> dict[str, str]:
        """Returns the headers of the request that began the stream, with the time that is left. `own_seconds`: what the
        client that reads on waits at most. Raises DeadlineExceeded."""
        terms = dict(self.request.headers)
        if self.is_finished:
            return terms
        remaining = self.request.expires - time.monotonic()
        if remaining <= 0:
            raise DeadlineExceeded("the deadline of the request that began this stream has passed", stage="decode")
        seconds = remaining if own_seconds is None else min(remaining, own_seconds)
        return terms | {TIMEOUT_HEADER: str(min(MAX_TIMEOUT_MS, max(1, int(seconds * 1000))))}
