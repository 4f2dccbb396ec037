"""The secret by which services of one platform know each other: a bearer token (RFC 6750) in the metadata of calls."""

import hmac
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from headrace.errors import Unauthenticated
from headrace.rpc.boundary import abort

KEY = "authorization"
SCOPE = "/headrace."
"""Health and reflection are open to everyone: container health checks have no secret."""


class CredentialGuard(grpc.aio.ServerInterceptor):
    """Refuses calls without the credential with UNAUTHENTICATED, before their messages are read."""

    def __init__(self, credential: str) -> None:
        self._expected = _bearer(credential).encode()

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


class CredentialedChannel(grpc.aio.Channel):
    """A channel that sends the credential with every call."""

    def __init__(self, channel: grpc.aio.Channel, credential: str) -> None:
        self._channel = channel
        self._pair = (KEY, _bearer(credential))

    async def __aenter__(self) -> "CredentialedChannel":
        await self._channel.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._channel.__aexit__(*error)

    async def close(self, grace: float | None = None) -> None:
        await self._channel.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self._channel.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self._channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self._channel.channel_ready()

    def unary_unary(self, *method: Any, **options: Any) -> Any:
        return self._with_credential(self._channel.unary_unary(*method, **options))

    def unary_stream(self, *method: Any, **options: Any) -> Any:
        return self._with_credential(self._channel.unary_stream(*method, **options))

    def stream_unary(self, *method: Any, **options: Any) -> Any:
        return self._with_credential(self._channel.stream_unary(*method, **options))

    def stream_stream(self, *method: Any, **options: Any) -> Any:
        return self._with_credential(self._channel.stream_stream(*method, **options))

    def _with_credential(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def call_with_credential(*arguments: Any, metadata: Any = (), **options: Any) -> Any:
            return call(*arguments, metadata=(self._pair, *(metadata or ())), **options)

        return call_with_credential


def _bearer(credential: str) -> str:
    return f"Bearer {credential}"


async def _refuse(_requests: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
    message = "this service answers other services of its platform only: the call lacks their credential"
    await abort(context, Unauthenticated(message))
