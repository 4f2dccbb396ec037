"""The whole picker: it scrapes servers over HTTP, turns green when it knows them all, and follows requests."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.own_certificate import make_certificate
from tests.services.scheduler.picker.gateway import TIMEOUT, GatewayStream, endpoints_of, refusal_of, request_headers

from headrace.errors import ConfigError
from headrace.lifecycle import Background
from headrace.scheduler.picker.app import served_picker
from headrace.scheduler.picker.config import PickerSettings
from headrace.scheduler.picker.servicer import SERVICE_NAME
from headrace.v1.envoy.external_processor_pb2_grpc import ExternalProcessorStub

pytestmark = pytest.mark.anyio
METRICS = b'vllm:num_requests_running{model_name="m"} %d\nvllm:num_requests_waiting{model_name="m"} 0\n'
SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


class ModelServer:
    """HTTP server that shows metrics, as a server of models does."""

    def __init__(self) -> None:
        self.running_count = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.address = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                await self.may_answer.wait()
                body = METRICS % self.running_count
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def model_server() -> AsyncIterator[ModelServer]:
    made = ModelServer()
    server = await asyncio.start_server(made.answer, "127.0.0.1")
    made.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield made
    server.close()


async def health(channel: grpc.aio.Channel, name: str) -> int:
    stub = health_pb2_grpc.HealthStub(channel)
    answer = await stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=TIMEOUT, wait_for_ready=True)
    return int(answer.status)


async def until_serving(channel: grpc.aio.Channel) -> None:
    watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service="readiness"))
    async with asyncio.timeout(TIMEOUT):
        while (await watch.read()).status != SERVING:
            pass
    watch.cancel()
    await watch.code()


async def pick(channel: grpc.aio.Channel) -> Any:
    stream = GatewayStream(ExternalProcessorStub(channel).Process(timeout=TIMEOUT))
    reply = await stream.ask(**request_headers(end_of_stream=True))
    await stream.close()
    return reply


async def test_it_is_ready_when_it_knows_its_endpoints_and_follows_their_load(tmp_path: Path) -> None:
    file = tmp_path / "endpoints"
    async with model_server() as one, model_server() as two:
        file.write_text(f"{one.address}\n{two.address}\n")
        one.running_count = 4
        one.may_answer.clear()
        settings = PickerSettings.of(
            listen_address="127.0.0.1:0",
            endpoints_file=file,
            scrape_seconds=0.02,
            list_seconds=0.02,
            scrape_timeout_seconds=TIMEOUT,
        )
        async with (
            served_picker(settings, Background()) as address,
            grpc.aio.insecure_channel(address) as channel,
        ):
            assert await health(channel, "liveness") == SERVING
            assert await health(channel, "readiness") == NOT_SERVING
            assert await health(channel, SERVICE_NAME) == NOT_SERVING
            one.may_answer.set()
            await until_serving(channel)
            assert await health(channel, SERVICE_NAME) == SERVING
            assert endpoints_of(await pick(channel)) == [two.address, one.address]
            one.running_count, two.running_count = 0, 4
            async with asyncio.timeout(TIMEOUT):
                while endpoints_of(await pick(channel)) != [one.address, two.address]:
                    pass
            file.write_text("")
            async with asyncio.timeout(TIMEOUT):
                while (reply := await pick(channel)).WhichOneof("response") != "immediate_response":
                    pass
            assert refusal_of(reply)[0] == 503


async def test_gateways_that_speak_tls_are_served(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    settings = PickerSettings.of(
        listen_address="127.0.0.1:0", endpoints="127.0.0.1:1", tls_certificate=certificate, tls_key=key
    )
    async with served_picker(settings, Background()) as address:
        credentials = grpc.ssl_channel_credentials(certificate.read_bytes())
        async with grpc.aio.secure_channel(address, credentials) as channel:
            await until_serving(channel)
            assert refusal_of(await pick(channel))[0] == 503


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "no endpoints are named"),
        ({"endpoints": "vllm:8000"}, "is no endpoint"),
        ({"endpoints": "10.0.0.1:1", "objectives": "chat=fast"}, "'fast' is no class of requests"),
        ({"endpoints": "10.0.0.1:1", "refused_late_classes": "slow"}, "'slow' is no class of requests"),
        ({"endpoints": "10.0.0.1:1", "tls_key": "key.pem"}, "belong together"),
    ],
)
async def test_settings_that_cannot_be_stop_the_start(settings: dict[str, str], message: str) -> None:
    made = PickerSettings.of(listen_address="127.0.0.1:0", **settings)
    with pytest.raises(ConfigError, match=message):
        async with served_picker(made, Background()):
            raise AssertionError
