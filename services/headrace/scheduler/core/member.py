"""One ticket of a dispatch, with the decisions about it."""

from dataclasses import dataclass

from headrace.scheduler.core.fleet.candidate import Candidate
from headrace.scheduler.core.fleet.prefill import Prefill
from headrace.scheduler.core.queueing.ticket import Ticket


@dataclass(frozen=True, slots=True)
class Member:
    """Ticket that goes to a worker, and why it goes there."""

    ticket: Ticket
    prefill: Prefill
    """Decision who computes the prompt."""
    candidates: tuple[Candidate, ...]
    """Workers considered, with the figures that decided; the chosen one first."""
