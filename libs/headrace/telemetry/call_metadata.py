"""gRPC metadata that tells the other side the trace and the id of the request that a call serves."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from headrace.telemetry.logs import bound_request_id, current_request_id
from headrace.telemetry.traces import continued_trace, current_traceparent

TRACE_KEY = "traceparent"
REQUEST_KEY = "x-request-id"


def outgoing_metadata() -> tuple[tuple[str, str], ...]:
    """Returns the metadata for a call made on behalf of the current request."""
    pairs = ((TRACE_KEY, current_traceparent()), (REQUEST_KEY, current_request_id() or ""))
    return tuple((key, value) for key, value in pairs if value)


@contextmanager
def incoming_metadata(metadata: Mapping[str, str | bytes]) -> Iterator[None]:
    """Runs its body as part of the request that a call belongs to."""
    request_id = str(metadata.get(REQUEST_KEY, ""))
    with continued_trace(str(metadata.get(TRACE_KEY, ""))):
        if not request_id:
            yield
            return
        with bound_request_id(request_id):
            yield
