"""Work that waits in a queue, by class and tenant."""

from dataclasses import dataclass, field

from headrace.scheduler.core.queueing.ticket import Ticket
from headrace.scheduler.core.queueing.urgency import Urgency
from headrace.scheduler.core.queueing.work import Work


@dataclass(slots=True)
class _Part:
    """Sums over the tickets of one tenant in one class."""

    count: int = 0
    tokens: float = 0.0
    weight: float = 1.0


@dataclass(slots=True)
class _Rank:
    """Sums over the tickets of one class."""

    count: int = 0
    prompt_tokens: float = 0.0
    output_tokens: float = 0.0
    weights: float = 0.0
    """Sum of the weights of the tenants."""
    parts: dict[str, _Part] = field(default_factory=dict)


class Backlog:
    """Adds up what tickets wait with, so that it is known at once how much goes before one."""

    def __init__(self) -> None:
        self._ranks: dict[Urgency, _Rank] = {}
        self._works: dict[Ticket, Work] = {}

    def work_of(self, ticket: Ticket) -> Work:
        """Returns the work of a ticket that waits."""
        return self._works[ticket]

    def add(self, ticket: Ticket, work: Work) -> None:
        """Adds a ticket."""
        self._works[ticket] = work
        urgency = ticket.rank
        rank = self._ranks.get(urgency)
        if rank is None:
            rank = self._ranks[urgency] = _Rank()
        part = rank.parts.get(ticket.tenant)
        if part is None:
            part = rank.parts[ticket.tenant] = _Part(weight=ticket.weight)
            rank.weights += ticket.weight
        part.count += 1
        part.tokens += work.prompt_tokens + work.output_tokens
        rank.count += 1
        rank.prompt_tokens += work.prompt_tokens
        rank.output_tokens += work.output_tokens

    def remove(self, ticket: Ticket) -> Work:
        """Removes a ticket, and returns its work."""
        work, urgency = self._works.pop(ticket), ticket.rank
        rank = self._ranks[urgency]
        part = rank.parts[ticket.tenant]
        part.count -= 1
        part.tokens -= work.prompt_tokens + work.output_tokens
        rank.count -= 1
        rank.prompt_tokens -= work.prompt_tokens
        rank.output_tokens -= work.output_tokens
        if not part.count:
            del rank.parts[ticket.tenant]
            rank.weights -= part.weight
        if not rank.count:
            del self._ranks[urgency]  # With what rounding has left of its sums.
        return work

    def whole(self) -> Work:
        """Returns all work that waits."""
        ranks = self._ranks.values()
        return Work(sum(rank.prompt_tokens for rank in ranks), sum(rank.output_tokens for rank in ranks))

    def before(self, ticket: Ticket, work: Work) -> Work:
        """Returns the work that goes before a new ticket: that of more urgent classes, and of its own class what other
        tenants get by their weights while its tenant is served what it has waiting. Turns of starving tickets are not
        counted."""
        ahead = Work()
        for urgency, rank in self._ranks.items():
            if urgency < ticket.rank:
                ahead += Work(rank.prompt_tokens, rank.output_tokens)
            elif urgency == ticket.rank:
                ahead += Work(rank.prompt_tokens, rank.output_tokens).times(self._share_before(rank, ticket, work))
        return ahead

    def _share_before(self, rank: _Rank, ticket: Ticket, work: Work) -> float:
        part = rank.parts.get(ticket.tenant)
        own = part.tokens if part is not None else 0.0
        others = rank.weights - (part.weight if part is not None else 0.0)
        tokens = rank.prompt_tokens + rank.output_tokens
        turn = own + work.prompt_tokens + work.output_tokens
        return min(1.0, (own + turn * others / ticket.weight) / tokens) if tokens else 1.0
