"""The routes /headrace/requests and /headrace/requests/{id}: where the time of the last requests went."""

import re
from collections.abc import Mapping
from urllib.parse import parse_qs

from headrace.errors import InvalidRequest, NotFound
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.exchange import Handler, HttpExchange
from headrace.gateway.timing.recent_requests import RecentRequests
from headrace.gateway.timing.timings_format import described

PATH = "/headrace/requests"
DEFAULT_LIMIT = 20
MAX_LIMIT = 1000
_SOME_DIGITS = re.compile(r"[0-9]{1,4}")


class RequestRoutes:
    """Tells a tenant about its own requests."""

    describe_error = staticmethod(error_body)
    scopes = frozenset[str]()

    def __init__(self, recent: RecentRequests) -> None:
        self._recent = recent

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {PATH: {"GET": self.list_requests}, f"{PATH}/{{id}}": {"GET": self.show_request}}

    async def list_requests(self, exchange: HttpExchange) -> None:
        """Answers with the newest requests first; `?limit`, `?model` and `?outcome` choose among them."""
        given = {name: values[-1] for name, values in parse_qs(exchange.query.decode("latin-1")).items()}
        if unknown := sorted(given.keys() - {"limit", "model", "outcome"}):
            raise InvalidRequest(f"unknown parameter {unknown[0]!r}; there are limit, model and outcome")
        found = self._recent.newest(
            exchange.caller.tenant.name, _limit(given), given.get("model"), given.get("outcome")
        )
        await exchange.send_json(200, {"object": "list", "data": [described(record) for record in found]})

    async def show_request(self, exchange: HttpExchange) -> None:
        """Answers with one request, named by its client's id or its request id; `last` is the newest."""
        name = exchange.path.removeprefix(f"{PATH}/").removeprefix("chatcmpl-").removeprefix("cmpl-")
        record = self._recent.find(exchange.caller.tenant.name, name)
        if record is None:
            raise NotFound("no such request of yours is remembered: it may be older than those that are, or still run")
        await exchange.send_json(200, described(record))


def _limit(given: dict[str, str]) -> int:
    text = given.get("limit", str(DEFAULT_LIMIT))
    if not _SOME_DIGITS.fullmatch(text) or not 1 <= int(text) <= MAX_LIMIT:
        raise InvalidRequest(f"limit must be an integer from 1 to {MAX_LIMIT}", param="limit")
    return int(text)
