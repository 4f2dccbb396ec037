"""The REST bridge: maps paths to handlers and errors to responses. The only servicer that speaks HTTP instead of
gRPC."""

import logging
import re
import uuid
from collections.abc import Mapping, Sequence

from starlette.types import Receive, Scope, Send

from headrace.errors import HeadraceError, InvalidRequest, NotFound, RequestCancelled
from headrace.errors.table import message_of, row_of
from headrace.gateway.access.gate import OPEN_GATE, Gate
from headrace.gateway.config import GatewaySettings
from headrace.gateway.console.console_routes import ConsoleRoutes, wants_page
from headrace.gateway.http.bodies.upload_budget import UploadBudget
from headrace.gateway.http.browser_guard import BrowserGuard
from headrace.gateway.http.endpoint_group import EndpointGroup
from headrace.gateway.http.endpoints import Endpoints
from headrace.gateway.http.error_body import error_body, error_headers
from headrace.gateway.http.exchange import Handler, HttpExchange
from headrace.gateway.request.ledger import note_refusal
from headrace.gateway.timing.recent_requests import RecentRequests
from headrace.gateway.timing.request_metrics import count_http
from headrace.telemetry.large_garbage import collect_soon

_REQUEST_ID = re.compile(r"[!-~]{1,128}")
BAD_REQUEST = 400
_WITHOUT_VERSION = (
    "chat/completions",
    "completions",
    "embeddings",
    "messages",
    "models",
    "rerank",
    "responses",
    "score",
)
_ALIASES = {f"/{name}": f"/v1/{name}" for name in _WITHOUT_VERSION} | {"/v2/rerank": "/v1/rerank"}
"""Paths that other servers use for the same endpoints."""
_UNREMEMBERED = frozenset(
    {
        *("/", "/health", "/ready", "/metrics", "/console", "/console/{name}", "/headrace/fleet", "/headrace/usage"),
        *("/headrace/requests", "/headrace/requests/{id}", "/headrace/keys", "/headrace/keys/{id}"),
        *("/headrace/fleet/history", "/docs"),
    }
)
"""Routes that ask about the platform: their refusals are counted only."""
_log = logging.getLogger(__name__)


class Routes:
    """An ASGI application."""

    describe_error = staticmethod(error_body)
    scopes = None

    def __init__(
        self,
        settings: GatewaySettings,
        groups: Sequence[EndpointGroup],
        gate: Gate = OPEN_GATE,
        recent: RecentRequests | None = None,
        console: ConsoleRoutes | None = None,
        uploads: UploadBudget | None = None,
    ) -> None:
        """`console`: what answers browsers that come to /. None: they get the same as other clients. `uploads`: the
        budget of bodies that arrive. None: a new one."""
        self._settings = settings
        self._console = console
        self._endpoints = Endpoints([*groups, *([console] if console else []), self])
        self._gate = gate
        self._uploads = uploads or UploadBudget(settings.max_upload_bytes)
        self._guard = BrowserGuard(settings)
        self._recent = recent or RecentRequests()

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {"/": {"GET": self._welcome}}

    async def _welcome(self, exchange: HttpExchange) -> None:
        """Answers browsers with the console, and all others with the endpoints."""
        exchange.headers["vary"] = ", ".join(filter(None, ["accept", exchange.headers.get("vary")]))
        if self._console is not None and wants_page(exchange):
            await self._console.show_page(exchange)
            return
        endpoints = [f"{method} {endpoint.path}" for endpoint in self._endpoints for method in endpoint.methods]
        await exchange.send_json(200, {"name": "headrace", "endpoints": endpoints})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        exchange = HttpExchange(scope, receive, send, self._settings, self._uploads)
        given = exchange.header("x-request-id") or ""
        exchange.headers["x-request-id"] = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        exchange.record.client_id = exchange.headers["x-request-id"]
        try:
            if self._guard.admit(scope["method"], exchange):
                await self._handle(scope["method"], scope["path"], exchange)
            else:
                await exchange.send_bytes(200, b"", "text/plain")
        except Exception as error:  # noqa: BLE001 - this is the boundary
            note_refusal(error, exchange.record)
            if not isinstance(error, RequestCancelled):
                await self._refuse(exchange, error)
        finally:
            self._note_end(scope["method"], exchange)
            collect_soon(exchange.body_bytes)

    def _note_end(self, method: str, exchange: HttpExchange) -> None:
        """Counts an exchange. Exchanges that ask for work, and all that were refused, are remembered."""
        record = exchange.record
        count_http(record.route, method, record.status)
        if record.operation or (record.status >= BAD_REQUEST and record.route not in _UNREMEMBERED):
            self._recent.add(record)

    async def _handle(self, method: str, path: str, exchange: HttpExchange) -> None:
        endpoint = self._endpoints.find(_ALIASES.get(path, path))
        exchange.record.route = "" if endpoint is None else endpoint.path
        if endpoint is None or endpoint.scopes is not None:
            exchange.caller = self._gate.caller(exchange.header("authorization"), exchange.header("x-api-key"))
        exchange.record.tenant = exchange.caller.tenant.name
        if endpoint is None:
            raise NotFound(f"there is nothing at {method} {path}; GET / lists what there is")
        exchange.describe_error = endpoint.describe_error
        handler = endpoint.methods.get("GET" if method == "HEAD" else method)
        if handler is None:
            exchange.headers["allow"] = ", ".join(endpoint.methods)
            error = InvalidRequest(f"{path} takes {' or '.join(endpoint.methods)}, not {method}")
            exchange.record.note_failure(row_of(error).code, message_of(error))
            await exchange.refuse(405, exchange.describe_error(error))
            return
        exchange.caller.check_scope(endpoint.scopes or frozenset())
        await handler(exchange)

    async def _refuse(self, exchange: HttpExchange, error: Exception) -> None:
        if not isinstance(error, HeadraceError):
            _log.exception("unexpected failure", extra={"request_id": exchange.headers["x-request-id"]})
        if exchange.started:
            return
        exchange.headers |= error_headers(error)
        await exchange.refuse(row_of(error).http_status, exchange.describe_error(error))
