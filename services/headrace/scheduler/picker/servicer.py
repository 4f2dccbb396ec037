"""External processor of Envoy: each stream follows one HTTP request and its response."""

import asyncio
from dataclasses import dataclass
from typing import Any

import grpc

from headrace.errors import HeadraceError, Overloaded, UploadTimeout
from headrace.scheduler.picker.choosing.endpoint_picker import EndpointPicker
from headrace.scheduler.picker.requests.body_room import BodyRoom
from headrace.scheduler.picker.requests.proxied_request import OrderTerms, ProxiedRequest
from headrace.scheduler.picker.translation import to_part, to_refusal, to_response
from headrace.v1.envoy import external_processor_pb2 as pb
from headrace.v1.envoy.external_processor_pb2_grpc import (
    ExternalProcessorServicer,
    add_ExternalProcessorServicer_to_server,
)

SERVICE_NAME = "envoy.service.ext_proc.v3.ExternalProcessor"
WRITE_SECONDS = 10.0
"""Seconds after which a proxy that does not read has lost its stream."""
RETRY_SECONDS = 1.0

Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class StreamTerms:
    """Limits of streams."""

    max_stream_count: int
    body_seconds: float
    """Time between two parts of a request."""
    response_seconds: float
    """Time between two parts of a response."""


class PickerServicer(ExternalProcessorServicer):
    """Serves any number of streams at once, up to a limit."""

    def __init__(self, picker: EndpointPicker, room: BodyRoom, orders: OrderTerms, streams: StreamTerms) -> None:
        self._picker = picker
        self._room = room
        self._orders = orders
        self._streams = streams
        self.stream_count = 0

    # Written by hand, not generated: a stream that is cut then ends within this call, whatever it waits for.
    async def Process(  # type: ignore[override]  # noqa: N802
        self, _requests: Any, context: Context
    ) -> None:
        request = ProxiedRequest(self._picker, self._room, self._orders)
        self.stream_count += 1
        try:
            if self.stream_count > self._streams.max_stream_count:
                raise Overloaded("too many requests are open", retry_after=RETRY_SECONDS)
            await self._follow(request, context)
        except HeadraceError as error:
            request.refuse(error)
            await _write(context, to_refusal(error))
        finally:
            self.stream_count -= 1
            request.close()

    async def _follow(self, request: ProxiedRequest, context: Context) -> None:
        """Answers the parts of a request until the proxy ends the stream, or is silent for too long."""
        while True:
            awaits_body = request.awaits_body
            try:
                async with asyncio.timeout(
                    self._streams.body_seconds if awaits_body else self._streams.response_seconds
                ):
                    message = await context.read()
            except TimeoutError:
                if awaits_body:
                    raise UploadTimeout() from None
                return
            if message is grpc.aio.EOF:
                return
            part = to_part(message)
            for reply in [] if part is None else await request.take(part):
                await _write(context, to_response(reply))


async def _write(context: Context, response: pb.ProcessingResponse) -> None:
    """Writes a message. Ends a stream whose proxy does not read."""
    try:
        async with asyncio.timeout(WRITE_SECONDS):
            await context.write(response)
    except TimeoutError:
        await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the gateway does not read")


def bind(server: grpc.aio.Server, servicer: PickerServicer) -> None:
    """Adds the servicer to a server."""
    add_ExternalProcessorServicer_to_server(servicer, server)
