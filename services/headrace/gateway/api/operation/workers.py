"""The route /headrace/workers/{id}/drain: takes a worker away without ending a request."""

import logging
from collections.abc import Mapping
from urllib.parse import unquote

from headrace.errors import Forbidden
from headrace.gateway.api.operation.drain_body import parse_drain_body
from headrace.gateway.config import GatewaySettings
from headrace.gateway.fleet.fleet import Fleet
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.exchange import Handler, HttpExchange
from headrace.settings.web.web_names import host_name, is_loopback

PATH = "/headrace/workers"
_log = logging.getLogger(__name__)


class WorkerRoutes:
    """Lets holders of a key with the scope admin drain workers."""

    describe_error = staticmethod(error_body)
    scopes = frozenset({"admin"})

    def __init__(self, settings: GatewaySettings, fleet: Fleet) -> None:
        self._is_private = is_loopback(host_name(settings.http_address))
        self._fleet = fleet

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {f"{PATH}/{{id}}/drain": {"POST": self.drain}}

    async def drain(self, exchange: HttpExchange) -> None:
        """Has a worker move its requests to others and end; answers at once with what it still runs. /headrace/fleet
        shows what is left."""
        if not exchange.caller.may_end_workers(is_private=self._is_private):
            raise Forbidden(
                "this gateway is on the network and asks for no keys, so anyone could end its workers: make a key with "
                "headrace keys create ADMIN --scope admin"
            )
        worker_id = unquote(exchange.path.removeprefix(f"{PATH}/").removesuffix("/drain"))
        body = parse_drain_body(await exchange.read_body())
        count = await self._fleet.drain(worker_id, body.patience_seconds, force=body.force)
        by = exchange.caller.key.id if exchange.caller.key else ""
        _log.info("drains a worker", extra={"worker": worker_id, "sessions": count, "by": by})
        exchange.headers["cache-control"] = "no-store"
        await exchange.send_json(200, {"id": worker_id, "state": "draining", "sessions": count})
