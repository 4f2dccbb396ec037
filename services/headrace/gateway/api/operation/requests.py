"""The routes /headrace/requests and /headrace/requests/{id}: where the time of the last requests went."""

import re
from collections.abc import Mapping
from urllib.parse import parse_qs

from headrace.errors import InvalidRequest, NotFound
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.exchange import Handler, HttpExchange
from headrace.gateway.peers.known_requests import KnownRequests
from headrace.gateway.peers.request_query import RequestQuery

PATH = "/headrace/requests"
DEFAULT_LIMIT = 20
MAX_LIMIT = 1000
_SOME_DIGITS = re.compile(r"[0-9]{1,4}")


class RequestRoutes:
    """Tells a tenant about its own requests."""

    describe_error = staticmethod(error_body)
    scopes = frozenset[str]()

    def __init__(self, requests: KnownRequests) -> None:
        self._requests = requests

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {PATH: {"GET": self.list_requests}, f"{PATH}/{{id}}": {"GET": self.show_request}}

    async def list_requests(self, exchange: HttpExchange) -> None:
        """Answers with the newest requests first, of all gateways that answer in time; `?limit`, `?model` and
        `?outcome` choose among them."""
        given = {name: values[-1] for name, values in parse_qs(exchange.query.decode("latin-1")).items()}
        if unknown := sorted(given.keys() - {"limit", "model", "outcome"}):
            raise InvalidRequest(f"unknown parameter {unknown[0]!r}; there are limit, model and outcome")
        query = RequestQuery(
            exchange.caller.tenant.name,
            limit=_limit(given),
            model=given.get("model", ""),
            outcome=given.get("outcome", ""),
        )
        found = await self._requests.of_all_gateways(query)
        await exchange.send_json(200, {"object": "list", "gateways": self._requests.gateways, "data": found})

    async def show_request(self, exchange: HttpExchange) -> None:
        """Answers with one request, named by its client's id or its request id; `last` is the newest."""
        name = exchange.path.removeprefix(f"{PATH}/").removeprefix("chatcmpl-").removeprefix("cmpl-")
        found = await self._requests.of_all_gateways(RequestQuery(exchange.caller.tenant.name, name=name))
        if not found:
            raise NotFound(
                "request not found: it may still be running, or have been dropped from the list of recent ones"
            )
        await exchange.send_json(200, found[0])


def _limit(given: dict[str, str]) -> int:
    text = given.get("limit", str(DEFAULT_LIMIT))
    if not _SOME_DIGITS.fullmatch(text) or not 1 <= int(text) <= MAX_LIMIT:
        raise InvalidRequest(f"limit must be an integer from 1 to {MAX_LIMIT}", param="limit")
    return int(text)
