"""Gateway for tests: speaks Envoy's external processing to a picker over a real channel. Its picker has a clock that is
set by hand."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import grpc
from google.protobuf.struct_pb2 import ListValue, Struct, Value

from headrace.scheduler.picker.choosing.endpoint_picker import EndpointPicker
from headrace.scheduler.picker.config import PickerSettings
from headrace.scheduler.picker.endpoints.reported_load import ReportedLoad
from headrace.scheduler.picker.requests.body_room import BodyRoom
from headrace.scheduler.picker.servicer import PickerServicer, bind
from headrace.v1.envoy import external_processor_pb2 as pb
from headrace.v1.envoy.base_pb2 import HeaderMap, HeaderValue, Metadata
from headrace.v1.envoy.external_processor_pb2_grpc import ExternalProcessorStub
from headrace.v1.envoy.processing_mode_pb2 import ProcessingMode

A, B, C = "10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000"
KEY = "x-gateway-destination-endpoint"
TIMEOUT = 10.0
CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
IDLE = ReportedLoad(0, 0)


class Gateway:
    """A picker behind a server, and the stub of a gateway."""

    def __init__(self, **settings: Any) -> None:
        made = PickerSettings.of(endpoints=(A,), **settings)
        self.now = 100.0
        self.picker = EndpointPicker(
            made.policy(), made.limits(), made.queue_seconds, made.fallback_count, clock=lambda: self.now
        )
        self.room = BodyRoom(made.max_body_bytes, made.max_held_body_bytes)
        self.servicer = PickerServicer(self.picker, self.room, made.orders(), made.streams())
        self.stub: Any = None
        self._streams: list[GatewayStream] = []

    def set_loads(self, loads: dict[str, ReportedLoad]) -> None:
        """Makes these the endpoints, each ready and with its load."""
        self.picker.set_endpoints(loads)
        for address, load in loads.items():
            self.picker.take_load(address, load)
        self.picker.tick()

    def stream(self) -> "GatewayStream":
        self._streams.append(GatewayStream(self.stub.Process(timeout=TIMEOUT)))
        return self._streams[-1]

    async def close(self) -> None:
        """Cuts all streams and waits for their ends, so that none is left to the next test."""
        for stream in self._streams:
            stream.call.cancel()
            await stream.call.code()
        await until(lambda: self.servicer.stream_count == 0)


class GatewayStream:
    """One HTTP request on its way through the gateway."""

    def __init__(self, call: Any) -> None:
        self.call = call

    async def send(self, **parts: Any) -> None:
        await self.call.write(pb.ProcessingRequest(**parts))

    async def read(self) -> Any:
        return await self.call.read()

    async def ask(self, **parts: Any) -> Any:
        await self.send(**parts)
        return await self.read()

    async def ask_chat(self, body: Any = CHAT, mode: str = "FULL_DUPLEX_STREAMED", **headers: Any) -> Any:
        """Sends a whole request, and returns the reply that has its endpoints or refuses it."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        await self.send(**request_headers(mode, **headers))
        if mode == "BUFFERED":
            await self.read()
        await self.send(request_body=pb.HttpBody(body=content, end_of_stream=True))
        return await self.read()

    async def serve(self, address: str, status: int = 200, body: bytes = b"", **headers: str) -> None:
        """Sends a whole response that an endpoint gave."""
        await self.ask(**response_headers(address, status, **headers))
        await self.ask(response_body=pb.HttpBody(body=body, end_of_stream=True))
        await self.close()

    async def close(self) -> None:
        """Ends the stream as a gateway does when the response is over."""
        await self.call.done_writing()
        while await self.call.read() is not grpc.aio.EOF:
            pass


async def until(is_so: Callable[[], bool]) -> None:
    """Lets the server work until something is so."""
    for _ in range(10_000):
        if is_so():
            return
        await asyncio.sleep(0.001)
    raise TimeoutError


def request_headers(
    mode: str = "FULL_DUPLEX_STREAMED",
    subset: Sequence[str] | str | None = None,
    end_of_stream: bool = False,
    **headers: str,
) -> dict[str, Any]:
    number = ProcessingMode.BodySendMode.Value(mode)
    found: dict[str, Any] = {
        "request_headers": pb.HttpHeaders(headers=header_map(headers), end_of_stream=end_of_stream),
        "protocol_config": pb.ProtocolConfiguration(request_body_mode=number, response_body_mode=number),
    }
    if subset is not None:
        value = Value(string_value=subset) if isinstance(subset, str) else list_value(subset)
        found["metadata_context"] = metadata("envoy.lb.subset_hint", f"{KEY}-subset", value)
    return found


def response_headers(address: str = "", status: int = 200, **headers: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "response_headers": pb.HttpHeaders(headers=header_map({":status": str(status), **headers}))
    }
    if address:
        found["metadata_context"] = metadata("envoy.lb", f"{KEY}-served", Value(string_value=address))
    return found


def header_map(headers: dict[str, str]) -> HeaderMap:
    """Converts headers, whose names may be written as those of arguments are."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HeaderMap(headers=[HeaderValue(key=name, raw_value=value.encode()) for name, value in named.items()])


def list_value(texts: Sequence[str]) -> Value:
    return Value(list_value=ListValue(values=[Value(string_value=text) for text in texts]))


def metadata(namespace: str, key: str, value: Value) -> Metadata:
    return Metadata(filter_metadata={namespace: Struct(fields={key: value})})


def header_of(mutation: Any, name: str = KEY) -> str:
    (found,) = [each.header.raw_value.decode() for each in mutation.set_headers if each.header.key == name]
    return found


def endpoints_of(reply: Any) -> list[str]:
    """Endpoints that a reply names, equal in its header and its metadata."""
    common = getattr(reply, reply.WhichOneof("response")).response
    header = header_of(common.header_mutation)
    assert reply.dynamic_metadata.fields["envoy.lb"].struct_value.fields[KEY].string_value == header
    return header.split(",")


def refusal_of(reply: Any) -> tuple[int, dict[str, Any]]:
    """Status and error of a reply that refuses the request."""
    assert reply.WhichOneof("response") == "immediate_response", reply
    return reply.immediate_response.status.code, json.loads(reply.immediate_response.body)["error"]


@contextlib.asynccontextmanager
async def served_gateway(**settings: Any) -> AsyncIterator[Gateway]:
    """Serves a picker on a port of this machine."""
    gateway, server = Gateway(**settings), grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    bind(server, gateway.servicer)
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            gateway.stub = ExternalProcessorStub(channel)
            yield gateway
            await gateway.close()
    finally:
        await server.stop(0)
