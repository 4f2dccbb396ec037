"""Calls the tokenizer."""

import json
from collections.abc import Sequence
from typing import Protocol

import grpc

from headrace.domain.conversation import Conversation
from headrace.domain.encoded import Encoded
from headrace.domain.message import Message
from headrace.domain.to_encode import TextToEncode, ToEncode
from headrace.rpc.boundary import translated
from headrace.telemetry.call_metadata import outgoing_metadata
from headrace.v1 import tokenizer_pb2, tokenizer_pb2_grpc

STAGE = "tokenize"


class TokenizerClient(Protocol):
    """Every method raises HeadraceError; `timeout` is in seconds."""

    async def encode(self, wanted: ToEncode, timeout: float) -> Encoded: ...

    async def decode(self, model: str, token_ids: Sequence[int], skip_special_tokens: bool, timeout: float) -> str: ...

    async def get_vocabulary(
        self, model: str, timeout: float, known_fingerprints: Sequence[bytes] = ()
    ) -> tokenizer_pb2.GetVocabularyResponse:
        """Returns the vocabulary of a model, or only its fingerprint if that is one of `known_fingerprints`."""


class GrpcTokenizerClient:
    """TokenizerClient over gRPC."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub: tokenizer_pb2_grpc.TokenizerServiceAsyncStub = tokenizer_pb2_grpc.TokenizerServiceStub(channel)

    async def encode(self, wanted: ToEncode, timeout: float) -> Encoded:
        request = _to_request(wanted)
        with translated(STAGE):
            response = await self._stub.Encode(request, timeout=timeout, metadata=outgoing_metadata())
        return Encoded(list(response.token_ids), response.opens_reasoning)

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


def _to_request(wanted: ToEncode) -> tokenizer_pb2.EncodeRequest:
    request = tokenizer_pb2.EncodeRequest(model=wanted.model, context_token_count=wanted.context_token_count)
    if isinstance(wanted, TextToEncode):
        request.text, request.add_special_tokens = wanted.text, wanted.add_special_tokens
        if wanted.max_token_count is not None:
            request.max_token_count = wanted.max_token_count
        if wanted.pair_text is not None:
            request.pair_text = wanted.pair_text
        request.instruction = wanted.instruction
    else:
        request.conversation.CopyFrom(_to_message(wanted.conversation))
    return request


def _to_message(conversation: Conversation) -> tokenizer_pb2.Conversation:
    return tokenizer_pb2.Conversation(
        messages=[_to_chat_message(message) for message in conversation.messages],
        add_generation_prompt=conversation.add_generation_prompt,
        continue_final_message=conversation.continue_final_message,
        tools=json.dumps(conversation.tools, ensure_ascii=False) if conversation.tools else "",
        chat_template=conversation.chat_template,
        template_arguments=json.dumps(conversation.template_arguments) if conversation.template_arguments else "",
    )


def _to_chat_message(message: Message) -> tokenizer_pb2.ChatMessage:
    return tokenizer_pb2.ChatMessage(
        role=message.role,
        content=message.content,
        name=message.name,
        tool_calls=[
            tokenizer_pb2.ToolCall(id=call.id, name=call.name, arguments=call.arguments) for call in message.tool_calls
        ],
        tool_call_id=message.tool_call_id,
        reasoning=message.reasoning,
    )
