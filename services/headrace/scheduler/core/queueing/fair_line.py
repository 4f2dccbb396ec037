"""Queue of one class: the tenant served least goes first, and its ticket that is due first."""

import heapq
import itertools
from collections import deque
from dataclasses import dataclass, field

from headrace.scheduler.core.queueing.accounts import Accounts
from headrace.scheduler.core.queueing.ticket import Ticket

SPARE_ENTRIES = 64
"""Stale entries that a heap may hold beyond as many as there are live ones."""


@dataclass(slots=True)
class _TenantLine:
    heap: list[tuple[float, int, Ticket]] = field(default_factory=list)
    live_count: int = 0


class FairLine:
    """Heap of tenants over heaps of tickets. Tickets that left are dropped when they come to the top, and all at once
    when they outnumber the waiting ones: every operation costs amortized O(log n)."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._live: dict[str, Ticket] = {}
        self._tenants: dict[str, _TenantLine] = {}
        self._order: list[tuple[float, int, str]] = []
        self._places: dict[str, tuple[float, int]] = {}
        """Valid entry of each tenant in `_order`."""
        self._arrivals: deque[Ticket] = deque()
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, key: str) -> bool:
        return key in self._live

    def line_up(self, ticket: Ticket) -> None:
        """Inserts a ticket."""
        line = self._tenants.setdefault(ticket.tenant, _TenantLine())
        heapq.heappush(line.heap, (ticket.due, next(self._numbers), ticket))
        line.live_count += 1
        self._live[ticket.key] = ticket
        self._arrivals.append(ticket)
        if ticket.tenant not in self._places:
            self.reorder(ticket.tenant)

    def remove(self, ticket: Ticket) -> None:
        """Removes a ticket."""
        del self._live[ticket.key]
        line = self._tenants[ticket.tenant]
        line.live_count -= 1
        if not line.live_count:
            del self._tenants[ticket.tenant], self._places[ticket.tenant]
        elif len(line.heap) > 2 * line.live_count + SPARE_ENTRIES:
            line.heap = [entry for entry in line.heap if self._waits(entry[2])]
            heapq.heapify(line.heap)
        if len(self._arrivals) > 2 * len(self._live) + SPARE_ENTRIES:
            self._arrivals = deque(ticket for ticket in self._arrivals if self._waits(ticket))

    def reorder(self, tenant: str) -> None:
        """Moves a tenant whose account changed to its new place."""
        if tenant in self._tenants:
            place = (self._accounts.standing(tenant), next(self._numbers))
            self._places[tenant] = place
            heapq.heappush(self._order, (*place, tenant))
            if len(self._order) > 2 * len(self._tenants) + SPARE_ENTRIES:
                self._order = [entry for entry in self._order if self._places.get(entry[2]) == entry[:2]]
                heapq.heapify(self._order)

    def first(self) -> Ticket | None:
        """Returns the ticket that goes next."""
        while self._order:
            standing, number, tenant = self._order[0]
            if self._places.get(tenant) != (standing, number):
                heapq.heappop(self._order)
            elif self._accounts.standing(tenant) > standing:
                heapq.heappop(self._order)
                self.reorder(tenant)
            else:
                return self._first_of(self._tenants[tenant])
        return None

    def oldest(self) -> Ticket | None:
        """Returns the ticket that arrived first."""
        while self._arrivals and not self._waits(self._arrivals[0]):
            self._arrivals.popleft()
        return self._arrivals[0] if self._arrivals else None

    def newest(self) -> Ticket | None:
        """Returns the ticket that arrived last."""
        while self._arrivals and not self._waits(self._arrivals[-1]):
            self._arrivals.pop()
        return self._arrivals[-1] if self._arrivals else None

    def _first_of(self, line: _TenantLine) -> Ticket:
        while not self._waits(line.heap[0][2]):
            heapq.heappop(line.heap)
        return line.heap[0][2]

    def _waits(self, ticket: Ticket) -> bool:
        return self._live.get(ticket.key) is ticket
