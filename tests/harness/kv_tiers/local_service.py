"""gRPC services in this process: real messages, handlers and errors, without a network."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import grpc

from headrace.errors.status import DETAILS_KEY, to_status
from headrace.rpc.channel import Channel

_CODES = {code.value[0]: code for code in grpc.StatusCode}
Disturb = Callable[[str], Awaitable[None]]
"""Runs before a call of a method, and before each message of its answer. Raises what the network would."""
Damage = Callable[[str, Any], Any]
"""Returns the message of an answer of a method as it arrives."""


def failed(code: grpc.StatusCode, details: str, *trailing: tuple[str, bytes]) -> grpc.aio.AioRpcError:
    """Makes the error of a call."""
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(*trailing), details=details)


class LocalService:
    """A server and the channel to it: `add_…Servicer_to_server` takes it for a server."""

    def __init__(self) -> None:
        self.handlers: dict[str, Any] = {}
        self.is_down = False
        self.disturb: Disturb | None = None
        self.damage: Damage | None = None

    @property
    def server(self) -> Any:
        """The server that handlers are added to."""
        return self

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        """Does nothing: the registered ones are the same."""

    def add_registered_method_handlers(self, name: str, handlers: dict[str, Any]) -> None:
        self.handlers |= {f"/{name}/{method}": handler for method, handler in handlers.items()}

    def channel(self) -> Channel:
        """Opens a channel."""
        return cast("Channel", _LocalChannel(self))


class _LocalChannel:
    """The part of a channel that stubs use."""

    def __init__(self, service: LocalService) -> None:
        self._service = service

    async def __aenter__(self) -> "_LocalChannel":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        return

    def unary_unary(self, path: str, request_serializer: Any, response_deserializer: Any, **_: Any) -> Any:
        async def call(request: Any, timeout: float) -> Any:
            async for message in _answers(self._service, path, request_serializer(request), timeout):
                return response_deserializer(message)
            raise failed(grpc.StatusCode.INTERNAL, "no answer")

        return call

    def unary_stream(self, path: str, request_serializer: Any, response_deserializer: Any, **_: Any) -> Any:
        def call(request: Any, timeout: float) -> _LocalStream:
            content = request_serializer(request)
            return _LocalStream(_answers(self._service, path, content, timeout), response_deserializer)

        return call

    def stream_stream(self, *_: Any, **__: Any) -> None:
        """Does nothing: no tier has such a call."""


class _LocalStream:
    def __init__(self, messages: AsyncIterator[bytes], deserializer: Any) -> None:
        self._messages: Any = messages
        self._deserializer = deserializer
        self._ending: asyncio.Task[None] | None = None

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for message in self._messages:
            yield self._deserializer(message)

    def cancel(self) -> None:
        if not self._messages.ag_running:
            self._ending = asyncio.ensure_future(self._messages.aclose())


async def _answers(service: LocalService, path: str, content: bytes, timeout: float) -> AsyncIterator[bytes]:
    """Runs a handler as a server does, and yields serialized answers."""
    loop = asyncio.get_running_loop()
    deadline, method = loop.time() + timeout, path.rpartition("/")[2]
    handler = service.handlers[path]
    request = handler.request_deserializer(content)
    answers = _streamed(handler, request)
    try:
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    await _pass(service, method)
                    answer = await anext(answers, None)
            except TimeoutError:
                raise failed(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded") from None
            except (grpc.aio.AioRpcError, asyncio.CancelledError):
                raise
            except Exception as error:  # noqa: BLE001 - this is the boundary
                status = to_status(error)
                details = (DETAILS_KEY, status.SerializeToString())
                raise failed(_CODES[status.code], status.message, details) from None
            if answer is None:
                return
            answer = answer if service.damage is None else service.damage(method, answer)
            yield handler.response_serializer(answer)
    finally:
        await answers.aclose()


async def _streamed(handler: Any, request: Any) -> Any:
    if handler.unary_unary is not None:
        yield await handler.unary_unary(request, None)
        return
    answers = handler.unary_stream(request, None)
    try:
        async for answer in answers:
            yield answer
    finally:
        await answers.aclose()


async def _pass(service: LocalService, method: str) -> None:
    if service.is_down:
        raise failed(grpc.StatusCode.UNAVAILABLE, "failed to connect")
    if service.disturb is not None:
        await service.disturb(method)
