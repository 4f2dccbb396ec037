"""Reaches a platform over its public gRPC API."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc

from headrace.client.answer import Answer, Chunk
from headrace.client.findings import Embeddings, Model, Ranked, Ranking
from headrace.client.grpc_messages import (
    chat_fields,
    chunk_of,
    embed_request,
    last_chunk,
    model_of,
    prompt_fields,
    rerank_request,
    whole_answer,
)
from headrace.client.options import Call, Question
from headrace.client.transport import Input
from headrace.errors import ConfigError, HeadraceError, InvalidRequest, Unavailable, Unsupported
from headrace.errors.status import DETAILS_KEY, from_rpc_error
from headrace.rpc.options import PUBLIC_CHANNEL_OPTIONS
from headrace.v1 import inference_pb2 as pb
from headrace.v1 import inference_pb2_grpc


class GrpcTransport:
    """Transport over one gRPC channel, which connects when first used, and again after every loss."""

    def __init__(self, address: str, key: str, authority: Path | None, *, is_secure: bool) -> None:
        """`authority`: PEM file of certificates to trust instead of the system's. Raises ConfigError."""
        self._address = address
        self._key = key
        self._credentials = grpc.ssl_channel_credentials(_read(authority)) if is_secure else None
        self._channel: grpc.aio.Channel | None = None

    async def answer(self, call: Call, question: Question) -> Answer:
        async with self._calling(call) as (stub, bounds):
            if question.messages is None:
                result = (await stub.Generate(pb.GenerateRequest(**prompt_fields(call, question)), **bounds)).result
            else:
                result = (await stub.Chat(pb.ChatRequest(**chat_fields(call, question)), **bounds)).result
            return whole_answer(call, result)

    async def stream(self, call: Call, question: Question) -> AsyncGenerator[Chunk, None]:
        events: Any = None
        has_calls = False
        try:
            async with self._calling(call) as (stub, bounds):
                if question.messages is None:
                    events = stub.StreamGenerate(pb.StreamGenerateRequest(**prompt_fields(call, question)), **bounds)
                else:
                    events = stub.StreamChat(pb.StreamChatRequest(**chat_fields(call, question)), **bounds)
            while True:
                async with self._explained():
                    event = await events.read()
                if event is grpc.aio.EOF:
                    return
                if event.WhichOneof("event") == "summary":
                    yield last_chunk(event.summary, has_calls)
                else:
                    has_calls = has_calls or bool(event.chunk.tool_calls)
                    yield chunk_of(event.chunk)
        finally:
            # Ends the call, which tells the platform that the reader is gone.
            if events is not None:
                events.cancel()

    async def embed(self, call: Call, inputs: Sequence[Input], dimensions: int | None) -> Embeddings:
        async with self._calling(call) as (stub, bounds):
            found = await stub.Embed(embed_request(call, inputs, dimensions), **bounds)
        vectors = tuple(tuple(embedding.values) for embedding in found.embeddings)
        return Embeddings(vectors, call.model, call.request_id, found.usage.prompt_token_count)

    async def rerank(
        self, call: Call, query: str, documents: Sequence[str], top_n: int | None, instruct: str
    ) -> Ranking:
        async with self._calling(call) as (stub, bounds):
            found = await stub.Rerank(rerank_request(call, query, documents, top_n, instruct), **bounds)
        ranked = tuple(Ranked(each.index, each.score, documents[each.index]) for each in found.documents)
        return Ranking(ranked, call.model, call.request_id, found.usage.prompt_token_count)

    async def models(self, call: Call) -> list[Model]:
        async with self._calling(call) as (stub, bounds):
            found = (await stub.ListModels(pb.ListModelsRequest(), **bounds)).models
        return [model_of(info) for info in found]

    async def read(self, call: Call, path: str, parameters: Mapping[str, str]) -> dict[str, Any]:
        raise Unsupported(f"{path} is told over HTTP only: make a client of the http:// address")

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()

    @contextlib.asynccontextmanager
    async def _calling(
        self, call: Call
    ) -> "AsyncIterator[tuple[inference_pb2_grpc.InferenceServiceAsyncStub, dict[str, Any]]]":
        """Yields the stub, and the keywords that bound a call and name its caller."""
        metadata = [("x-request-id", call.request_id)]
        if self._key:
            metadata.append(("authorization", f"Bearer {self._key}"))
        stub: inference_pb2_grpc.InferenceServiceAsyncStub = inference_pb2_grpc.InferenceServiceStub(self._opened())
        async with self._explained():
            yield stub, {"timeout": call.deadline.remaining, "metadata": tuple(metadata)}

    def _opened(self) -> grpc.aio.Channel:
        """Returns the channel. It is opened late, because it belongs to the loop that it is opened in."""
        if self._channel is None:
            options = PUBLIC_CHANNEL_OPTIONS
            if self._credentials is None:
                self._channel = grpc.aio.insecure_channel(self._address, options=options)
            else:
                self._channel = grpc.aio.secure_channel(self._address, self._credentials, options=options)
        return self._channel

    @contextlib.asynccontextmanager
    async def _explained(self) -> AsyncIterator[None]:
        """Turns failures of a call into HeadraceErrors."""
        try:
            yield
        except grpc.aio.AioRpcError as error:
            told = any(key == DETAILS_KEY for key, _ in error.trailing_metadata() or ())
            if error.code() == grpc.StatusCode.UNAVAILABLE and not told:
                raise Unavailable(f"no platform answers at {self._address}: {error.details()}") from None
            raise from_rpc_error(error) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # The caller was not cancelled: the channel was closed during the call, which gRPC reports the same way.
            raise Unavailable("the client was closed during the call") from None
        except HeadraceError:
            raise
        except (TypeError, ValueError) as error:
            raise InvalidRequest(f"a value does not fit the message: {error}") from None


def _read(authority: Path | None) -> bytes | None:
    try:
        return None if authority is None else authority.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read certificates in {authority}: {error}", param="authority") from None
