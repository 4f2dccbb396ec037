"""Wraps calls on both sides, so that errors raised on one are raised on the other; `errors.status` maps them."""

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import Message

from headrace.errors import HeadraceError, InternalError, RequestCancelled, Unavailable
from headrace.errors.status import DETAILS_KEY, from_rpc_error, to_status
from headrace.rpc.checks.request_limits import RequestLimits
from headrace.telemetry.call_metadata import incoming_metadata
from headrace.telemetry.large_garbage import collect_soon

_log = logging.getLogger(__name__)
Metadata = Mapping[str, str | bytes]
_CODES = {code.value[0]: code for code in grpc.StatusCode}


@contextmanager
def translated(stage: str) -> Iterator[None]:
    """Turns the failure of a call into a HeadraceError that names the stage."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        if _is_caller_cancelled():
            # The call failed at the same moment. Its error must not hide the cancellation from a caller that retries.
            raise asyncio.CancelledError from None
        failure = from_rpc_error(error)
        if isinstance(failure, RequestCancelled):
            # The caller is still here: a server that stops cancels what it runs.
            failure = Unavailable("the service ended the call, because it stops")
        failure.stage = failure.stage or stage
        raise failure from None
    except asyncio.CancelledError:
        if _is_caller_cancelled():
            raise
        # The channel was closed during the call, which gRPC reports the same way.
        raise Unavailable("the connection was closed", stage=stage) from None


def _is_caller_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def abort(context: grpc.aio.ServicerContext[Any, Any], error: Exception) -> None:
    """Ends a call with the status of an error, complete in the trailing metadata."""
    status = to_status(error)
    metadata = ((DETAILS_KEY, status.SerializeToString()),)
    await context.abort(_CODES[status.code], status.message, trailing_metadata=metadata)


async def _fail(context: grpc.aio.ServicerContext[Any, Any], method: str, error: Exception) -> None:
    if not isinstance(error, HeadraceError) or isinstance(error, InternalError):
        _log.exception("unexpected failure", extra={"method": method}, exc_info=error)
    await abort(context, error)


Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]
Check: TypeAlias = Callable[[Context, str], None]
"""Raises an error for a call, of a method, that is not to be answered."""


def let_in(_context: Context, _method: str) -> None:
    return


class Boundary(grpc.aio.ServerInterceptor):
    """Wraps every handler: checks the call, continues the caller's trace, adopts its request id, and maps exceptions to
    status."""

    def __init__(self, check: Check = let_in, limits: RequestLimits | None = None) -> None:
        """`limits`: of single requests. None: they come from our own services."""
        self._check = check
        self._limits = limits

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None or not handler_call_details.method.startswith("/headrace."):
            return handler
        method = handler_call_details.method
        metadata = dict(handler_call_details.invocation_metadata or ())
        kind = _HANDLER_KINDS[handler.request_streaming, handler.response_streaming]
        behavior = getattr(handler, kind)
        deserializer = handler.request_deserializer
        if self._limits is not None and not handler.request_streaming:
            behavior, deserializer = _measured(behavior, deserializer.__self__, self._limits), None
        # A stream is either generated, or written by the handler itself, which then bounds the time of each write.
        wrap = _wrap_stream if inspect.isasyncgenfunction(behavior) else _wrap_unary
        return getattr(grpc, f"{kind}_rpc_method_handler")(
            wrap(behavior, method, metadata, self._check),
            request_deserializer=deserializer,
            response_serializer=handler.response_serializer,
        )


_HANDLER_KINDS = {
    (False, False): "unary_unary",
    (False, True): "unary_stream",
    (True, False): "stream_unary",
    (True, True): "stream_stream",
}


def _measured(
    behavior: Callable[..., Awaitable[Any]], kind: type[Message], limits: RequestLimits
) -> Callable[..., Awaitable[Any]]:
    """Returns a behavior that parses its request itself, so that its errors become a status."""

    async def call(content: bytes, context: Context) -> Any:
        try:
            return await behavior(limits.parse(kind, content), context)
        finally:
            collect_soon(len(content))

    return call


def _wrap_unary(
    behavior: Callable[..., Awaitable[Any]], method: str, metadata: Metadata, check: Check
) -> Callable[..., Awaitable[Any]]:
    async def call(request: Any, context: Context) -> Any:
        with incoming_metadata(metadata):
            try:
                check(context, method)
                return await behavior(request, context)
            except (asyncio.CancelledError, grpc.aio.AbortError):
                raise
            except Exception as error:  # noqa: BLE001 - this is the boundary
                return await _fail(context, method, error)

    return call


def _wrap_stream(
    behavior: Callable[..., AsyncGenerator[Any, None]], method: str, metadata: Metadata, check: Check
) -> Callable[..., AsyncIterator[Any]]:
    async def call(request: Any, context: Context) -> AsyncIterator[Any]:
        with incoming_metadata(metadata):
            try:
                check(context, method)
                async with aclosing(behavior(request, context)) as responses:
                    async for response in responses:
                        yield response
            except (asyncio.CancelledError, grpc.aio.AbortError):
                raise
            except Exception as error:  # noqa: BLE001 - this is the boundary
                await _fail(context, method, error)

    return call
