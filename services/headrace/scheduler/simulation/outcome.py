"""Course of one simulated request, from its arrival to its one end."""

import enum
from dataclasses import dataclass

from headrace.scheduler.core.decisions import Reason
from headrace.scheduler.core.queueing.ticket import Ticket


class Ending(enum.Enum):
    """Ways in which a request ends."""

    FINISHED = "finished"
    """Every token came."""
    REFUSED = "refused"
    """The scheduler gave it no place."""
    TOO_LONG = "too_long"
    """It fits neither the context nor the KV cache of a worker."""
    QUEUE_TIMEOUT = "queue_timeout"
    """Its deadline passed in the queue."""
    TIMEOUT = "timeout"
    """Its deadline passed on a worker."""


@dataclass(slots=True)
class Outcome:
    """Course of one request. Times in virtual seconds."""

    ticket: Ticket
    asked_at: float
    """Time at which the client asked, before the ticket reached the scheduler."""
    placed_at: float | None = None
    worker: str = ""
    first_token_at: float | None = None
    last_token_at: float = 0.0
    token_count: int = 0
    """Tokens that came."""
    cached_token_count: int = 0
    """Tokens of the prompt that were in the worker's prefix cache."""
    ending: Ending | None = None
    """None: it has not ended."""
    ended_at: float = 0.0
    rejection: Reason | None = None
    retry_after: float = 0.0
    """Seconds after which the scheduler expected room, where it refused."""

    def end(self, ending: Ending, now: float) -> None:
        """Ends the request. Raises AssertionError if it has ended before."""
        if self.ending is not None:
            raise AssertionError(f"{self.ticket.key} ends twice: {self.ending.value}, then {ending.value}")
        self.ending, self.ended_at = ending, now

    @property
    def finished_at(self) -> float | None:
        """Time at which every token had come. None: they did not."""
        return self.ended_at if self.ending is Ending.FINISHED else None

    @property
    def prompt_seconds(self) -> float | None:
        """Seconds from the place on a worker to the first token. None: there was none."""
        if self.first_token_at is None or self.placed_at is None:
            return None
        return self.first_token_at - self.placed_at

    @property
    def ttft(self) -> float:
        """Seconds from the client's request to the first token, which must have come."""
        if self.first_token_at is None:
            raise AssertionError(f"{self.ticket.key} has no token")
        return self.first_token_at - self.asked_at

    @property
    def tpot(self) -> float:
        """Mean seconds per token after the first. 0 for a single token."""
        if self.first_token_at is None or self.token_count < 2:
            return 0.0
        return (self.last_token_at - self.first_token_at) / (self.token_count - 1)
