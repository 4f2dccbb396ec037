"""The REST bridge: maps paths to handlers and errors to responses. The only servicer that speaks HTTP instead of
gRPC."""

import logging
import re
import time
import uuid

from prometheus_client import CollectorRegistry
from starlette.types import Receive, Scope, Send

from headrace.errors import HeadraceError, InvalidRequest, NotFound, RequestCancelled
from headrace.errors.table import row_of
from headrace.gateway.config import GatewaySettings
from headrace.gateway.delivery.pipeline import Pipeline
from headrace.gateway.endpoints.embedding import EmbeddingRoutes
from headrace.gateway.endpoints.generation import GenerationRoutes
from headrace.gateway.endpoints.requests import PATH as REQUESTS_PATH
from headrace.gateway.endpoints.requests import RequestRoutes
from headrace.gateway.endpoints.text import TextRoutes
from headrace.gateway.exposition import exposed
from headrace.gateway.fleet.platform_health import PlatformHealth
from headrace.gateway.http.browser_guard import BrowserGuard
from headrace.gateway.http.error_body import error_body, error_headers
from headrace.gateway.http.exchange import Handler, HttpExchange
from headrace.gateway.http.upload_budget import UploadBudget
from headrace.gateway.request.ledger import note_refusal
from headrace.gateway.request.model_facts import ModelFacts
from headrace.gateway.request.tenants import EVERYONE, Tenants
from headrace.gateway.timing.recent_requests import RecentRequests
from headrace.gateway.timing.request_metrics import count_http

_REQUEST_ID = re.compile(r"[!-~]{1,128}")
_MODEL_PREFIX = "/v1/models/"
_OPEN = frozenset({"/", "/health", "/ready", "/metrics"})
"""Paths that need no key."""
CLIENT_GONE = 499
"""Status, as nginx has it, that stands in metrics for a client that left before there was one."""
BAD_REQUEST = 400
_UNREMEMBERED = frozenset({*_OPEN, REQUESTS_PATH, f"{REQUESTS_PATH}/{{id}}"})
"""Routes that ask about the platform: their refusals are counted only."""
_log = logging.getLogger(__name__)


class Routes:
    """An ASGI application."""

    def __init__(
        self,
        settings: GatewaySettings,
        generation: GenerationRoutes,
        embedding: EmbeddingRoutes,
        text: TextRoutes,
        pipeline: Pipeline,
        health: PlatformHealth,
        registry: CollectorRegistry,
        tenants: Tenants = EVERYONE,
        recent: RecentRequests | None = None,
    ) -> None:
        self._settings = settings
        self._pipeline = pipeline
        self._health = health
        self._registry = registry
        self._tenants = tenants
        self._uploads = UploadBudget(settings.max_upload_bytes)
        self._guard = BrowserGuard(settings)
        self._started = int(time.time())
        self._recent = recent or RecentRequests()
        requests = RequestRoutes(self._recent)
        self._prefixes: dict[str, Handler] = {
            _MODEL_PREFIX: self._show_model,
            f"{REQUESTS_PATH}/": requests.show_request,
        }
        """Handlers of GET by the beginning of their paths."""
        self._handlers: dict[str, dict[str, Handler]] = {
            "/v1/chat/completions": {"POST": generation.chat_completions},
            "/v1/completions": {"POST": generation.completions},
            "/v1/embeddings": {"POST": embedding.embeddings},
            "/v1/models": {"GET": self._list_models},
            "/tokenize": {"POST": text.tokenize},
            "/detokenize": {"POST": text.detokenize},
            REQUESTS_PATH: {"GET": requests.list_requests},
            "/health": {"GET": self._alive},
            "/ready": {"GET": self._ready},
            "/metrics": {"GET": self._metrics},
            "/": {"GET": self._welcome},
        }

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
            if not exchange.in_ledger:
                note_refusal(error)
                exchange.record.note_failure(row_of(error).code)
            if not isinstance(error, RequestCancelled):
                await self._refuse(exchange, error)
        finally:
            self._note_end(scope["method"], exchange)

    def _note_end(self, method: str, exchange: HttpExchange) -> None:
        """Counts an exchange. Those that ask for work, and all that were refused, are remembered."""
        record = exchange.record
        count_http(record.route, method, record.status or CLIENT_GONE)
        if record.operation or (record.status >= BAD_REQUEST and record.route not in _UNREMEMBERED):
            self._recent.add(record)

    async def _handle(self, method: str, path: str, exchange: HttpExchange) -> None:
        prefix = next((each for each in self._prefixes if path.startswith(each)), "")
        methods = {"GET": self._prefixes[prefix]} if prefix else self._handlers.get(path)
        exchange.record.route = f"{prefix}{{id}}" if prefix else (path if methods else "")
        if methods is None:
            raise NotFound(f"there is nothing at {method} {path}; GET / lists what there is")
        handler = methods.get("GET" if method == "HEAD" else method)
        if handler is None:
            exchange.headers["allow"] = ", ".join(methods)
            error = error_body(InvalidRequest(f"{path} takes {' or '.join(methods)}, not {method}"))
            await exchange.refuse(405, error)
            return
        if path not in _OPEN:
            exchange.tenant = self._tenants.of(exchange.header("authorization"))
        exchange.record.tenant = exchange.tenant.name
        await handler(exchange)

    async def _refuse(self, exchange: HttpExchange, error: Exception) -> None:
        if not isinstance(error, HeadraceError):
            _log.exception("unexpected failure", extra={"request_id": exchange.headers["x-request-id"]})
        if exchange.started:
            return
        exchange.headers |= error_headers(error)
        await exchange.refuse(row_of(error).http_status, error_body(error))

    def _describe(self, model: ModelFacts) -> dict[str, object]:
        described = {
            "id": model.model,
            "object": "model",
            "created": self._started,
            "owned_by": "headrace",
            "max_model_length": model.max_model_length,
            "architecture": model.architecture,
            "precision": model.precision,
            "parameter_count": model.parameter_count,
        }
        described |= {"parent": model.parent} if model.parent else {}
        return described | ({"embedding_size": model.embedding_size} if model.embedding_size else {})

    async def _list_models(self, exchange: HttpExchange) -> None:
        models = self._pipeline.fleet.models()
        data = [self._describe(models[name]) for name in sorted(models, key=lambda name: (models[name].parent, name))]
        await exchange.send_json(200, {"object": "list", "data": data})

    async def _show_model(self, exchange: HttpExchange) -> None:
        name = exchange.path.removeprefix(_MODEL_PREFIX)
        await exchange.send_json(200, self._describe(await self._pipeline.fleet.find(name)))

    async def _alive(self, exchange: HttpExchange) -> None:
        await exchange.send_json(200, {"status": "alive"})

    async def _ready(self, exchange: HttpExchange) -> None:
        await exchange.send_json(200 if self._health.ready else 503, self._health.report())

    async def _metrics(self, exchange: HttpExchange) -> None:
        await exchange.send_bytes(200, *exposed(self._registry, exchange.header("accept") or ""))

    async def _welcome(self, exchange: HttpExchange) -> None:
        endpoints = [f"{method} {path}" for path, methods in self._handlers.items() for method in methods]
        await exchange.send_json(
            200, {"name": "headrace", "endpoints": [*endpoints, *(f"GET {prefix}{{id}}" for prefix in self._prefixes)]}
        )
