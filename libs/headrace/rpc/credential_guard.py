"""Interceptor that refuses calls without the platform's credential."""

import hmac
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from headrace.errors import Unauthenticated
from headrace.rpc.boundary import abort
from headrace.security.credential import KEY, bearer

SCOPE = "/headrace."
"""Prefix of the methods that need the credential. Health and reflection do not: container health checks have no
secret."""


class CredentialGuard(grpc.aio.ServerInterceptor):
    """Refuses calls without the credential with UNAUTHENTICATED, before their messages are read."""

    def __init__(self, credential: str) -> None:
        self._expected = bearer(credential).encode()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        if not handler_call_details.method.startswith(SCOPE) or self._is_known(handler_call_details):
            return await continuation(handler_call_details)
        return grpc.stream_stream_rpc_method_handler(_refuse)

    def _is_known(self, details: grpc.HandlerCallDetails) -> bool:
        given = dict(details.invocation_metadata or ()).get(KEY, "")
        return hmac.compare_digest(given if isinstance(given, bytes) else given.encode(), self._expected)


async def _refuse(_requests: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
    message = "this service answers other services of its platform only: the call lacks their credential"
    await abort(context, Unauthenticated(message))
