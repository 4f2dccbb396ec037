"""A REST bridge on a free port, with a pipeline that answers at once, and clients that speak raw HTTP."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from types import SimpleNamespace
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry

from headrace.domain.deadline import Deadline
from headrace.errors import ModelNotFound, Unavailable
from headrace.gateway.access.gate import OPEN_GATE
from headrace.gateway.api.openai.routes.embedding import EmbeddingRoutes
from headrace.gateway.api.openai.routes.generation import GenerationRoutes
from headrace.gateway.api.openai.routes.text import TextRoutes
from headrace.gateway.api.operation.monitoring import MonitoringRoutes
from headrace.gateway.config import GatewaySettings
from headrace.gateway.delivery.text_stream import Piece
from headrace.gateway.fleet.model_facts import ModelFacts
from headrace.gateway.fleet.served.served_names import ServedNames
from headrace.gateway.http.bodies.upload_budget import UploadBudget
from headrace.gateway.http.server import HttpServer
from headrace.gateway.job.job import Job, Options
from headrace.gateway.request.envelope import Envelope
from headrace.gateway.request.ledger import Ledger
from headrace.gateway.routes import Routes
from headrace.gateway.text.detokenizer import Vocabulary
from headrace.v1.generation_pb2 import FINISH_REASON_LENGTH, FINISH_REASON_UNSPECIFIED

PATIENCE = 15.0
MODEL = ModelFacts("m", max_model_length=64, vocabulary_size=100)


class NoTokenizer:
    """Stands for tokenizers that are away."""

    async def vocabulary(self, _model: str, _deadline: Deadline) -> Vocabulary:
        raise Unavailable("no tokenizer answers")


class FakePipeline:
    """Answers with text at once: `piece_count` pieces of `piece_length` characters."""

    def __init__(self, piece_count: int, piece_length: int) -> None:
        self.fleet = SimpleNamespace(find=self._model, names=ServedNames())
        self.prepare = SimpleNamespace(completion=self._completion)
        self._count, self._length = piece_count, piece_length

    async def _model(self, name: str) -> ModelFacts:
        if name != "m":
            raise ModelNotFound(f"model {name!r} does not exist", param="model")
        return MODEL

    async def _completion(
        self, model: str, prompts: list[Any], special: bool | None, options: Options, envelope: Envelope
    ) -> Job:
        job = Job(envelope, MODEL, Vocabulary((), frozenset(), False, False), [[1]], options)
        job.check()
        return job

    async def generate(self, job: Job, journal: Any = None) -> AsyncGenerator[Piece, None]:
        for number in range(self._count):
            await asyncio.sleep(0)
            last = number == self._count - 1
            yield Piece(
                "x" * self._length, [1], finish_reason=FINISH_REASON_LENGTH if last else FINISH_REASON_UNSPECIFIED
            )


class Gateway:
    """A served REST bridge."""

    def __init__(self, http: HttpServer, ledger: Ledger) -> None:
        host, _, port = http.address.rpartition(":")
        self.host, self.port, self.ledger = host, int(port), ledger
        self._http = http

    @property
    def connection_count(self) -> int:
        return len(self._http._server.server_state.connections)

    @property
    def parting_count(self) -> int:
        """Connections that wait for their first request although the bridge stops."""
        connections: Iterable[Any] = self._http._server.server_state.connections
        return sum(connection._is_parting for connection in connections)

    async def stop(self) -> None:
        """Shuts the bridge down the way a gateway shuts down on SIGTERM."""
        await self._http.stop(Deadline.after(PATIENCE))

    async def connect(self, limit: int = 2**16) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self.host, self.port, limit=limit)

    async def read_all(self, reader: asyncio.StreamReader) -> bytes:
        """All that comes until the gateway closes the connection."""
        async with asyncio.timeout(PATIENCE):
            return await reader.read()

    async def post_apart(self, body: bytes, path: str) -> tuple[int, dict[str, Any]]:
        """Posts from a thread of its own, so that what the client does costs the gateway's loop nothing."""
        return await asyncio.to_thread(lambda: asyncio.run(self.post(body, path)))

    async def post(self, body: bytes, path: str = "/v1/completions", headers: str = "") -> tuple[int, dict[str, Any]]:
        return await post(self.host, self.port, body, path, headers)


async def post(
    host: str, port: int, body: bytes, path: str = "/v1/completions", headers: str = ""
) -> tuple[int, dict[str, Any]]:
    """Status and error of a request whose client sends all of its body before it reads."""
    reader, writer = await asyncio.open_connection(host, port)
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n{headers}\r\n"
    try:
        writer.write(head.encode() + body)
        await writer.drain()
        return await answer(reader)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, Any]]:
    async with asyncio.timeout(PATIENCE):
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode().lower().split("\r\n")
        length = next(int(line.removeprefix("content-length: ")) for line in lines if line.startswith("content-length"))
        content = json.loads(await reader.readexactly(length))
    return int(lines[0].split()[1]), content.get("error", content)


@contextlib.asynccontextmanager
async def serving(
    piece_count: int = 1, piece_length: int = 1, pipeline: Any = None, **settings: Any
) -> AsyncIterator[Gateway]:
    made = GatewaySettings.model_validate({"http_address": "127.0.0.1:0", **settings})
    ledger = Ledger(made.max_open_requests)
    pipeline = pipeline or FakePipeline(piece_count, piece_length)
    generation = GenerationRoutes(made, pipeline, ledger)
    embedding = EmbeddingRoutes(made, pipeline, ledger)
    health: Any = SimpleNamespace(ready=True)
    text = TextRoutes(made, pipeline, ledger)
    platform = MonitoringRoutes(health, OPEN_GATE, CollectorRegistry())
    uploads = UploadBudget(made.max_upload_bytes)
    routes = Routes(made, [generation, embedding, text, platform], uploads=uploads)
    http = HttpServer(routes, made, OPEN_GATE, uploads)
    await http.start()
    try:
        yield Gateway(http, ledger)
    finally:
        await http.stop(Deadline.after(0.2))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - it is another task's doing
            await asyncio.sleep(0.01)


def outcomes(outcome: str, model: str = "") -> float:
    return REGISTRY.get_sample_value("headrace_requests_total", {"model": model, "outcome": outcome}) or 0.0


def body_of(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "prompt": "a", "max_tokens": 1} | fields).encode()
