"""Commands of a gateway to a worker that it is attached to."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cancellation:
    """Drops a request: all attempts up to this one."""

    request_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Inquiry:
    """Asks about attempts at requests that have been silent for a while."""

    attempts: tuple[tuple[str, int], ...]
    """Pairs of request id and attempt number."""


Command = Cancellation | Inquiry
