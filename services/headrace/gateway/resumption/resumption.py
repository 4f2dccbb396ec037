"""Wish of a client to read on in a stream."""

from dataclasses import dataclass

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
