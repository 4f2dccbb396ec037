"""The routes /headrace/fleet and /headrace/fleet/history."""

from collections.abc import Mapping

from headrace.gateway.console.fleet_history import FleetHistory
from headrace.gateway.console.fleet_report import FleetReport
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.exchange import Handler, HttpExchange
from headrace.gateway.peers.known_requests import KnownRequests
from headrace.gateway.peers.request_query import RequestQuery


class FleetRoutes:
    """Describes to a caller how the platform does now, and how it did over the last hour."""

    describe_error = staticmethod(error_body)
    scopes = frozenset[str]()

    def __init__(self, report: FleetReport, history: FleetHistory, requests: KnownRequests) -> None:
        self._report = report
        self._history = history
        self._requests = requests

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {"/headrace/fleet": {"GET": self.show_fleet}, "/headrace/fleet/history": {"GET": self.show_history}}

    async def show_fleet(self, exchange: HttpExchange) -> None:
        """Answers with services, workers, queues, and the open requests of all gateways that answer in time."""
        exchange.headers["cache-control"] = "no-store"
        caller = exchange.caller
        query = RequestQuery(caller.tenant.name, all_tenants=caller.sees_all_usage, is_open=True)
        counts = await self._requests.of_all_gateways(query)
        report = self._report.describe(caller)
        await exchange.send_json(200, report | {"gateways": self._requests.gateways, "open": counts})

    async def show_history(self, exchange: HttpExchange) -> None:
        """Answers with the last hour as this gateway saw it, for the models that the caller may use."""
        exchange.headers["cache-control"] = "no-store"
        history = self._history.describe(exchange.caller)
        await exchange.send_json(200, {"gateway": self._requests.gateway} | history)
