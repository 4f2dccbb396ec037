"""Terms on which requests are refused before they are late."""

from dataclasses import dataclass

from headrace.domain.ids import is_first_sequence
from headrace.scheduler.core.queueing.ticket import Ticket
from headrace.scheduler.core.queueing.urgency import Urgency


@dataclass(frozen=True, slots=True)
class RefusalTerms:
    """Classes whose requests are refused at once where no worker can meet their time."""

    past_deadline: frozenset[Urgency] = frozenset({Urgency.REALTIME, Urgency.INTERACTIVE, Urgency.DEFAULT})
    """Classes whose requests are refused if they would not end before their deadline. Batch requests wait: what others
    leave may still be in time."""
    late: frozenset[Urgency] = frozenset()
    """Classes whose requests are refused if their first token would come later than they, or their class, want it."""

    def concern(self, ticket: Ticket) -> bool:
        """Whether a ticket may be refused at all. One that had a place never is: a client reads it already. Nor are
        further outputs of a request whose first one waits or runs: they wait for each other, and all would be lost."""
        if ticket.resumes or not (ticket.urgency in self.past_deadline or ticket.urgency in self.late):
            return False
        return is_first_sequence(ticket.request_id)
