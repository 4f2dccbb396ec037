"""The routes /openapi.json and /docs."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from headrace.gateway.api.openapi.document import document
from headrace.gateway.api.openapi.operations import OPERATIONS
from headrace.gateway.api.openapi.page import page
from headrace.gateway.console.console_routes import HEADERS
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.exchange import Handler, HttpExchange


class DocumentRoutes:
    """Describes the API, to programs and to people."""

    describe_error = staticmethod(error_body)
    scopes = None

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {"/openapi.json": {"GET": self._document}, "/docs": {"GET": self._page}}

    async def _document(self, exchange: HttpExchange) -> None:
        await exchange.send_json(200, self._made)

    async def _page(self, exchange: HttpExchange) -> None:
        exchange.headers |= HEADERS
        await exchange.send_bytes(200, self._written, "text/html; charset=utf-8")

    @cached_property
    def _made(self) -> dict[str, Any]:
        return document(OPERATIONS)

    @cached_property
    def _written(self) -> bytes:
        return page(self._made).encode()
