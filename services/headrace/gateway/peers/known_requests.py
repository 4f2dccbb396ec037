"""Requests that the gateways of the platform know: recently ended ones, and open ones."""

from collections import Counter
from operator import itemgetter
from typing import Any

from headrace.gateway.peers.peers import Peers
from headrace.gateway.peers.request_query import RequestQuery
from headrace.gateway.request.ledger import Ledger
from headrace.gateway.timing.timings_format import described

Json = dict[str, Any]


class KnownRequests:
    """Answers for this gateway, and gathers the answers of all. Each record names the gateway that served it."""

    def __init__(self, ledger: Ledger, peers: Peers) -> None:
        self._ledger = ledger
        self._peers = peers

    @property
    def gateway(self) -> str:
        """Name of this gateway."""
        return self._peers.gateway_id

    @property
    def gateways(self) -> list[str]:
        """Names of the gateways, this one among them."""
        return sorted({self._peers.gateway_id, *self._peers.names})

    def of_this_gateway(self, query: RequestQuery) -> list[Json]:
        """Returns the rows of this gateway, newest first."""
        if query.is_open:
            return self._open(query)
        recent = self._ledger.recent
        if query.name:
            record = recent.find(query.tenant, query.name)
            found = [] if record is None else [record]
        else:
            found = recent.newest(query.tenant, query.limit, query.model or None, query.outcome or None)
        return [{"gateway": self._peers.gateway_id, **described(record)} for record in found]

    async def of_all_gateways(self, query: RequestQuery) -> list[Json]:
        """Returns the rows of all gateways that answer in time: the newest first, or open requests counted."""
        rows = [*self.of_this_gateway(query), *await self._peers.ask(query)]
        if query.is_open:
            return _summed(rows)
        return sorted(rows, key=itemgetter("started"), reverse=True)[: query.limit]

    def _open(self, query: RequestQuery) -> list[Json]:
        records = [one for one in self._ledger.open_records() if query.all_tenants or one.tenant == query.tenant]
        return [
            {"model": record.model, "class": record.request_class, "tenant": record.tenant, "requests": 1}
            for record in records
        ]


def _summed(rows: list[Json]) -> list[Json]:
    """Adds up open requests by model, class and tenant."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        counts[row["model"], row["class"], row["tenant"]] += row["requests"]
    return [
        {"model": model, "class": urgency, "tenant": tenant, "requests": count}
        for (model, urgency, tenant), count in sorted(counts.items())
    ]
