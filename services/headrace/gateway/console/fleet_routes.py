"""The route /headrace/fleet."""

from collections.abc import Mapping

from headrace.gateway.console.fleet_report import FleetReport
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.exchange import Handler, HttpExchange


class FleetRoutes:
    """Tells a caller how the platform is doing right now."""

    describe_error = staticmethod(error_body)
    scopes = frozenset[str]()

    def __init__(self, report: FleetReport) -> None:
        self._report = report

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {"/headrace/fleet": {"GET": self.show_fleet}}

    async def show_fleet(self, exchange: HttpExchange) -> None:
        """Answers with services, workers, queues and open requests."""
        exchange.headers["cache-control"] = "no-store"
        await exchange.send_json(200, self._report.describe(exchange.caller))
