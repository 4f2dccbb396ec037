"""The routes by which a platform is watched."""

from collections.abc import Mapping
from importlib.metadata import version

from prometheus_client import CollectorRegistry

from headrace.gateway.access.gate import Gate
from headrace.gateway.batches.storage.disk import on_disk
from headrace.gateway.batches.storage.shared_folder import SharedFolder
from headrace.gateway.fleet.platform_health import PlatformHealth
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.exchange import Handler, HttpExchange
from headrace.gateway.timing.exposition import exposed


class MonitoringRoutes:
    """Tells whether the platform lives, is ready, and its metrics."""

    describe_error = staticmethod(error_body)
    scopes = None

    def __init__(
        self, health: PlatformHealth, gate: Gate, registry: CollectorRegistry, folder: SharedFolder | None = None
    ) -> None:
        """`folder`: of files and batches; None where there are none."""
        self._folder = folder
        self._gate = gate
        self._health = health
        self._registry = registry

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {
            "/health": {"GET": self._alive},
            "/ping": {"GET": self._alive, "POST": self._alive},
            "/version": {"GET": self._version},
            "/ready": {"GET": self._ready},
            "/metrics": {"GET": self._metrics},
        }

    async def _alive(self, exchange: HttpExchange) -> None:
        await exchange.send_json(200, {"status": "alive"})

    async def _version(self, exchange: HttpExchange) -> None:
        await exchange.send_json(200, {"version": version("headrace")})

    async def _ready(self, exchange: HttpExchange) -> None:
        files = {} if self._folder is None else {"files": await on_disk(self._folder.space.report)}
        report = self._health.report() | files | self._gate.report()
        await exchange.send_json(200 if self._health.ready else 503, report)

    async def _metrics(self, exchange: HttpExchange) -> None:
        await exchange.send_bytes(200, *exposed(self._registry, exchange.header("accept") or ""))
