"""The route /headrace/fleet."""

from collections.abc import Mapping

from headrace.gateway.console.fleet_report import FleetReport
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.exchange import Handler, HttpExchange
from headrace.gateway.peers.known_requests import KnownRequests
from headrace.gateway.peers.request_query import RequestQuery


class FleetRoutes:
    """Tells a caller how the platform is doing right now."""

    describe_error = staticmethod(error_body)
    scopes = frozenset[str]()

    def __init__(self, report: FleetReport, requests: KnownRequests) -> None:
        self._report = report
        self._requests = requests

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {"/headrace/fleet": {"GET": self.show_fleet}}

    async def show_fleet(self, exchange: HttpExchange) -> None:
        """Answers with services, workers, queues, and the open requests of all gateways that answer in time."""
        exchange.headers["cache-control"] = "no-store"
        caller = exchange.caller
        query = RequestQuery(caller.tenant.name, all_tenants=caller.sees_all_usage, is_open=True)
        counts = await self._requests.of_all_gateways(query)
        report = self._report.describe(caller)
        await exchange.send_json(200, report | {"gateways": self._requests.gateways, "open": counts})
