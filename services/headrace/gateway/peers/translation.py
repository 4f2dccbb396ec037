"""Questions among gateways, to messages and back."""

import json
from collections.abc import Sequence
from typing import Any

from headrace.gateway.peers.request_query import RequestQuery
from headrace.v1.events_pb2 import RequestsAsked, RequestsTold


def to_requests_asked(query: RequestQuery, gateway_id: str) -> RequestsAsked:
    """The message in which a gateway asks."""
    return RequestsAsked(
        gateway_id=gateway_id,
        tenant=query.tenant,
        all_tenants=query.all_tenants,
        open_requests=query.is_open,
        limit=query.limit,
        model=query.model,
        outcome=query.outcome,
        name=query.name,
    )


def to_request_query(asked: RequestsAsked) -> RequestQuery:
    """The question in a message."""
    return RequestQuery(
        tenant=asked.tenant,
        all_tenants=asked.all_tenants,
        is_open=asked.open_requests,
        limit=asked.limit,
        model=asked.model,
        outcome=asked.outcome,
        name=asked.name,
    )


def to_requests_told(rows: Sequence[dict[str, Any]], gateway_id: str) -> RequestsTold:
    """The message in which a gateway answers."""
    return RequestsTold(gateway_id=gateway_id, rows=[json.dumps(row).encode() for row in rows])
