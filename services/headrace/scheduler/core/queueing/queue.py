"""Tickets that wait for one model, in the order in which they should run."""

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator

from headrace.scheduler.core.queueing.accounts import Accounts
from headrace.scheduler.core.queueing.backlog import Backlog
from headrace.scheduler.core.queueing.fair_line import FairLine
from headrace.scheduler.core.queueing.ticket import Lane, Ticket
from headrace.scheduler.core.queueing.urgency import Urgency
from headrace.scheduler.core.queueing.work import Work

STARVING_TURNS = 4
"""Every so many tickets that leave, one is the oldest if it has waited too long."""

_Lines = dict[Urgency, FairLine]


class ModelQueue:
    """Lines by lane and class. A more urgent class goes first; of one class, the tenant served least (see FairLine).

    A ticket that has waited for longer than `starvation_seconds` gets every fourth turn, whatever its class.
    """

    def __init__(self, accounts: Accounts, starvation_seconds: float) -> None:
        self._accounts = accounts
        self._starvation_seconds = starvation_seconds
        self._lanes: dict[Lane, _Lines] = {}
        self._tickets: dict[str, Ticket] = {}
        self._tenant_counts: dict[str, int] = {}
        self._turn = 0
        self.backlog = Backlog()
        """Work of the tickets, as it is predicted."""
        self.token_count = 0
        """Prompt tokens that wait."""

    def __len__(self) -> int:
        return len(self._tickets)

    def __iter__(self) -> Iterator[Ticket]:
        return iter(list(self._tickets.values()))

    def get(self, key: str) -> Ticket | None:
        return self._tickets.get(key)

    @property
    def adapters(self) -> Collection[str]:
        """Adapters that are waited for; the empty name stands for none."""
        return {adapter for adapter, _ in self._lanes}

    @property
    def has_urgent(self) -> bool:
        """Whether a ticket waits that is not to wait for others to form a batch with."""
        return any(line for lane in self._lanes.values() for rank, line in lane.items() if rank <= Urgency.REALTIME)

    def enqueue(self, ticket: Ticket, work: Work) -> None:
        """Inserts a ticket of which so much work is predicted."""
        if not self._tenant_counts.get(ticket.tenant):
            self._accounts.enter(ticket.tenant)
        self._tenant_counts[ticket.tenant] = self._tenant_counts.get(ticket.tenant, 0) + 1
        lane = self._lanes.setdefault(ticket.lane, {})
        line = lane.get(ticket.rank)
        if line is None:
            line = lane[ticket.rank] = FairLine(self._accounts)
        line.line_up(ticket)
        self._tickets[ticket.key] = ticket
        self.backlog.add(ticket, work)
        self.token_count += ticket.prompt_token_count

    def remove(self, ticket: Ticket) -> Work:
        """Removes a ticket, and returns the work that was predicted of it."""
        del self._tickets[ticket.key]
        work = self.backlog.remove(ticket)
        self.token_count -= ticket.prompt_token_count
        self._tenant_counts[ticket.tenant] -= 1
        if not self._tenant_counts[ticket.tenant]:
            del self._tenant_counts[ticket.tenant]
        lane = self._lanes[ticket.lane]
        line = lane[ticket.rank]
        line.remove(ticket)
        if not line:
            del lane[ticket.rank]
            if not lane:
                del self._lanes[ticket.lane]
        return work

    def serve(self, ticket: Ticket) -> None:
        """Removes a ticket whose turn it is, and charges its tenant."""
        self._turn += 1
        self._accounts.charge(ticket, self.remove(ticket))

    def reorder(self, tenant: str) -> None:
        """Moves the tickets of a tenant whose account fell to their new places."""
        for lane in self._lanes.values():
            for line in lane.values():
                line.reorder(tenant)

    def next(self, blocked: Collection[Lane], now: float) -> Ticket | None:
        """Returns the ticket that goes next, leaving out blocked lanes; None if there is none."""
        lanes = [lines for lane, lines in self._lanes.items() if lane not in blocked]
        if not lanes:
            return None
        if self._turn % STARVING_TURNS == STARVING_TURNS - 1:
            oldest = min(_picks(_lines(lanes), FairLine.oldest), key=_by_arrival)
            if now - oldest.arrival > self._starvation_seconds:
                return oldest
        rank = min(min(lane) for lane in lanes)
        firsts = _picks((lane[rank] for lane in lanes if rank in lane), FairLine.first)
        return min(firsts, key=lambda ticket: (self._accounts.standing(ticket.tenant), ticket.due, ticket.key))

    def oldest_arrival(self) -> float:
        """Returns the arrival time of the ticket that has waited longest. The queue must not be empty."""
        return min(_picks(_lines(self._lanes.values()), FairLine.oldest), key=_by_arrival).arrival

    def least_urgent(self) -> Ticket:
        """Returns the newest ticket of the least urgent class. The queue must not be empty."""
        rank = max(max(lane) for lane in self._lanes.values())
        newest = _picks((lane[rank] for lane in self._lanes.values() if rank in lane), FairLine.newest)
        return max(newest, key=_by_arrival)


def _lines(lanes: Iterable[_Lines]) -> Iterator[FairLine]:
    return itertools.chain.from_iterable(lane.values() for lane in lanes)


def _picks(lines: Iterable[FairLine], pick: Callable[[FairLine], Ticket | None]) -> list[Ticket]:
    return [ticket for line in lines if (ticket := pick(line)) is not None]


def _by_arrival(ticket: Ticket) -> tuple[float, str]:
    return (ticket.arrival, ticket.key)
