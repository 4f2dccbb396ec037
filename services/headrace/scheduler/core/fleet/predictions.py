"""Predicted times to first tokens, joined with the real ones."""

from collections import OrderedDict
from dataclasses import dataclass

from headrace.scheduler.core.fleet.candidate import Candidate
from headrace.scheduler.core.queueing.ticket import Ticket

MAX_OPEN = 200_000


@dataclass(frozen=True, slots=True)
class FirstToken:
    """Time to a first token, as it was predicted when the request was sent to its worker, and as it was."""

    worker_id: str
    predicted_seconds: float
    seconds: float

    @property
    def error(self) -> float:
        """Difference of both, as a share of the time that it took."""
        return abs(self.predicted_seconds - self.seconds) / max(self.seconds, 1e-6)


class Predictions:
    """Remembers what was predicted of requests that run."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, Candidate] = OrderedDict()

    def note(self, ticket: Ticket, chosen: Candidate) -> None:
        """Notes the prediction for a ticket that is sent to a worker. A request that lost its worker has none: its
        first token came elsewhere, or is late for another reason."""
        if ticket.resumes or ticket.attempt > 1:
            self._open.pop(ticket.request_id, None)
            return
        self._open[ticket.request_id] = chosen
        while len(self._open) > MAX_OPEN:
            self._open.popitem(last=False)

    def settle(self, request_id: str, seconds: float | None) -> FirstToken | None:
        """Forgets a request that ended. Returns how its first token came, `seconds` after the worker had it, if that
        was predicted and is known."""
        chosen = self._open.pop(request_id, None)
        if chosen is None or seconds is None:
            return None
        return FirstToken(chosen.worker_id, chosen.first_token_seconds, seconds)
