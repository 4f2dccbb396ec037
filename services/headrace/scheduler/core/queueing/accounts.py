"""Fairness accounts: tokens served to each tenant, by weight."""

from collections import OrderedDict
from dataclasses import dataclass, field

from headrace.scheduler.core.queueing.ticket import Ticket
from headrace.scheduler.core.queueing.work import Work

MAX_TENANTS = 10_000
MAX_UNSETTLED = 200_000


@dataclass(frozen=True, slots=True)
class TenantCharge:
    """Charge for a request that has a place."""

    ticket: Ticket
    tokens: float
    """Tokens charged, over the tenant's weight."""
    work: Work
    """Work predicted of the request."""


@dataclass(slots=True)
class Accounts:
    """Virtual counters of tokens (Sheng et al., Fairness in Serving Large Language Models, 2024). A tenant that was
    away starts where those served now are (start-time fair queueing: Goyal et al., 1996)."""

    _served: "OrderedDict[str, float]" = field(default_factory=OrderedDict)
    _now: float = 0.0
    """Counter, before it was served, of the tenant that was served last."""
    _unsettled: "OrderedDict[str, TenantCharge]" = field(default_factory=OrderedDict)

    def standing(self, tenant: str) -> float:
        """Tokens that the tenant was served, over its weight. The least goes first."""
        return self._served.get(tenant, self._now)

    def enter(self, tenant: str) -> None:
        """Opens the account of a tenant that had nothing waiting: it cannot claim the time it was away."""
        self._served[tenant] = max(self._served.get(tenant, 0.0), self._now)
        self._served.move_to_end(tenant)
        while len(self._served) > MAX_TENANTS:
            self._served.popitem(last=False)

    def charge(self, ticket: Ticket, work: Work) -> None:
        """Charges a tenant for a ticket's prompt and the output predicted. A resumed ticket was charged at its first
        place."""
        if ticket.resumes:
            return
        expected = ticket.prompt_token_count + work.output_tokens
        standing = self.standing(ticket.tenant)
        self._now = max(self._now, standing)
        tokens = expected / ticket.weight
        self._served[ticket.tenant] = standing + tokens
        self._unsettled[ticket.request_id] = TenantCharge(ticket, tokens, work)
        while len(self._unsettled) > MAX_UNSETTLED:
            self._unsettled.popitem(last=False)

    def refund(self, ticket: Ticket) -> None:
        """Refunds the charge for a ticket that was not served."""
        charge = self._unsettled.pop(ticket.request_id, None)
        if charge is not None:
            self._correct(charge.ticket.tenant, -charge.tokens)

    def settle(self, request_id: str, output_token_count: int) -> TenantCharge | None:
        """Corrects a charge from the predicted to the real output, and returns it, if the request is known."""
        charge = self._unsettled.pop(request_id, None)
        if charge is None:
            return None
        ticket = charge.ticket
        used = (ticket.prompt_token_count + output_token_count) / ticket.weight
        self._correct(ticket.tenant, used - charge.tokens)
        return charge

    def _correct(self, tenant: str, tokens: float) -> None:
        if tenant in self._served:
            self._served[tenant] += tokens
