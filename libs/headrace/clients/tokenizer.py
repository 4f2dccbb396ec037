"""Calls the tokenizer."""

from collections.abc import Sequence
from typing import Protocol

import grpc

from headrace.rpc.boundary import translated
from headrace.telemetry.call_metadata import outgoing_metadata
from headrace.v1 import tokenizer_pb2, tokenizer_pb2_grpc

STAGE = "tokenize"


class TokenizerClient(Protocol):
    """Every method raises HeadraceError; `timeout` is in seconds."""

    async def encode_text(
        self,
        model: str,
        text: str,
        add_special_tokens: bool | None,
        timeout: float,
        max_token_count: int | None = None,
        context_token_count: int | None = None,
    ) -> list[int]: ...

    async def encode_chat(
        self,
        model: str,
        messages: Sequence[tokenizer_pb2.ChatMessage],
        add_generation_prompt: bool | None,
        timeout: float,
        context_token_count: int | None = None,
    ) -> list[int]: ...

    async def decode(self, model: str, token_ids: Sequence[int], skip_special_tokens: bool, timeout: float) -> str: ...

    async def get_vocabulary(
        self, model: str, timeout: float, known_fingerprints: Sequence[bytes] = ()
    ) -> tokenizer_pb2.GetVocabularyResponse:
        """Returns the vocabulary of a model, or only its fingerprint if that is one of `known_fingerprints`."""


class GrpcTokenizerClient:
    """TokenizerClient over gRPC."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub: tokenizer_pb2_grpc.TokenizerServiceAsyncStub = tokenizer_pb2_grpc.TokenizerServiceStub(channel)

    async def encode_text(
        self,
        model: str,
        text: str,
        add_special_tokens: bool | None,
        timeout: float,
        max_token_count: int | None = None,
        context_token_count: int | None = None,
    ) -> list[int]:
        request = tokenizer_pb2.EncodeRequest(
            model=model,
            text=text,
            add_special_tokens=add_special_tokens,
            max_token_count=max_token_count,
            context_token_count=context_token_count,
        )
        return await self._encode(request, timeout)

    async def encode_chat(
        self,
        model: str,
        messages: Sequence[tokenizer_pb2.ChatMessage],
        add_generation_prompt: bool | None,
        timeout: float,
        context_token_count: int | None = None,
    ) -> list[int]:
        conversation = tokenizer_pb2.Conversation(messages=messages, add_generation_prompt=add_generation_prompt)
        request = tokenizer_pb2.EncodeRequest(
            model=model, conversation=conversation, context_token_count=context_token_count
        )
        return await self._encode(request, timeout)

    async def decode(self, model: str, token_ids: Sequence[int], skip_special_tokens: bool, timeout: float) -> str:
        request = tokenizer_pb2.DecodeRequest(model=model, token_ids=token_ids, skip_special_tokens=skip_special_tokens)
        with translated(STAGE):
            response = await self._stub.Decode(request, timeout=timeout, metadata=outgoing_metadata())
        return response.text

    async def get_vocabulary(
        self, model: str, timeout: float, known_fingerprints: Sequence[bytes] = ()
    ) -> tokenizer_pb2.GetVocabularyResponse:
        request = tokenizer_pb2.GetVocabularyRequest(model=model, known_fingerprints=known_fingerprints)
        with translated(STAGE):
            return await self._stub.GetVocabulary(request, timeout=timeout)

    async def _encode(self, request: tokenizer_pb2.EncodeRequest, timeout: float) -> list[int]:
        with translated(STAGE):
            response = await self._stub.Encode(request, timeout=timeout, metadata=outgoing_metadata())
        return list(response.token_ids)
