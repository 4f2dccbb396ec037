"""Commands of a gateway to a worker that it is attached to."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cancellation:
    """Drops a request: its attempts up to this one."""

    request_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Inquiry:
    """Asks after attempts at requests of which nothing came for a while."""

    attempts: tuple[tuple[str, int], ...]
    """Pairs of request id and number of the attempt."""


Command = Cancellation | Inquiry
