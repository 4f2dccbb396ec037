"""Predicts whether a request would be late."""

from dataclasses import dataclass

from headrace.scheduler.core.foresight.refusal_terms import RefusalTerms
from headrace.scheduler.core.queueing.ticket import Ticket


@dataclass(frozen=True, slots=True)
class Expectation:
    """Predicted times of a request."""

    first_token_seconds: float
    """Time from now to its first token."""
    rest_seconds: float
    """Time from there to its end, at the least."""
    idle_first_token_seconds: float
    """Time to its first token, if the best worker had nothing else to do."""


def is_in_time(ticket: Ticket, first_seconds: float, rest_seconds: float, terms: RefusalTerms, now: float) -> bool:
    """Whether a request meets its times, of which the first token is one if its class is refused for that. Costs less
    than `excess_seconds`."""
    is_soon = ticket.urgency not in terms.late or now + first_seconds <= ticket.due
    return is_soon and now + first_seconds + rest_seconds <= ticket.deadline


def excess_seconds(ticket: Ticket, expected: Expectation, terms: RefusalTerms, now: float) -> float:
    """Returns the seconds by which a request would be late for what its class is refused for. 0: it is in time, its
    class waits, or it is no matter of waiting: it would be late on an idle worker too, and so at any other time."""
    excess, first = 0.0, now + expected.first_token_seconds
    wanted = ticket.wanted_seconds
    if ticket.urgency in terms.late and wanted is not None and expected.idle_first_token_seconds <= wanted:
        excess = first - ticket.arrival - wanted
    least = expected.idle_first_token_seconds + expected.rest_seconds
    if ticket.urgency in terms.past_deadline and least <= ticket.deadline - ticket.arrival:
        excess = max(excess, first + expected.rest_seconds - ticket.deadline)
    return max(0.0, excess)
