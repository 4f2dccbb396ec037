"""TokenizerService: converts, calls, converts."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import grpc

from headrace.errors import InvalidRequest, ModelNotFound
from headrace.rpc.checked_ids import check_token_ids
from headrace.telemetry.traces import span
from headrace.tokenizer.processes.text_pool import TextPool
from headrace.tokenizer.text.text_model import TextModel
from headrace.tokenizer.text.vocabulary import vocabulary_of
from headrace.v1 import tokenizer_pb2 as pb
from headrace.v1 import tokenizer_pb2_grpc

_log = logging.getLogger(__name__)
CHARACTERS_PER_TOKEN = 4
"""Roughly, to weigh token ids like texts."""
Context = grpc.aio.ServicerContext[Any, Any]


class TokenizerServicer(tokenizer_pb2_grpc.TokenizerServiceServicer):
    """Serves the text models it is given."""

    def __init__(self, models: Mapping[str, TextModel], pool: TextPool, inline_characters: int) -> None:
        self._models = models
        self._pool = pool
        self._inline_characters = inline_characters
        self._vocabularies: dict[str, pb.GetVocabularyResponse] = {}
        """Vocabularies that were asked for, by model: one for each of `models` at most."""
        self._vocabulary_lock = asyncio.Lock()

    async def Encode(self, request: pb.EncodeRequest, context: Context) -> pb.EncodeResponse:  # noqa: N802
        model = self._model(request.model)
        with span("tokenize", {"gen_ai.request.model": model.name}):
            context_token_count = request.context_token_count if request.HasField("context_token_count") else None
            if request.WhichOneof("input") == "conversation":
                messages, opens_answer = _messages(request.conversation), _opens_answer(request.conversation)
                token_ids = await self._pool.encode_chat(model.name, messages, opens_answer, context_token_count)
                return pb.EncodeResponse(token_ids=token_ids)
            return pb.EncodeResponse(token_ids=await self._encode(model, request, context_token_count))

    async def _encode(self, model: TextModel, request: pb.EncodeRequest, context_token_count: int | None) -> list[int]:
        text = request.text
        special = request.add_special_tokens if request.HasField("add_special_tokens") else True
        limit = request.max_token_count if request.HasField("max_token_count") else None
        _log.debug("encoding", extra={"model": model.name, "characters": len(text)})
        if context_token_count is not None and len(text) > context_token_count:
            # The bound on what a token stands for is read from the vocabulary the first time.
            await asyncio.to_thread(model.check_length, text, context_token_count)
        if len(text) <= self._inline_characters:
            return model.encode(text, special, limit)
        return await self._pool.encode(model.name, text, special, limit)

    async def Decode(self, request: pb.DecodeRequest, context: Context) -> pb.DecodeResponse:  # noqa: N802
        model = self._model(request.model)
        check_token_ids(request.token_ids, model.vocabulary_size, "tokens")
        if len(request.token_ids) * CHARACTERS_PER_TOKEN <= self._inline_characters:
            return pb.DecodeResponse(text=model.decode(request.token_ids, request.skip_special_tokens))
        text = await self._pool.decode(model.name, list(request.token_ids), request.skip_special_tokens)
        return pb.DecodeResponse(text=text)

    async def GetVocabulary(  # noqa: N802
        self, request: pb.GetVocabularyRequest, context: Context
    ) -> pb.GetVocabularyResponse:
        model = self._model(request.model)
        vocabulary = await self._vocabulary(model)
        if vocabulary.fingerprint in request.known_fingerprints:
            return pb.GetVocabularyResponse(fingerprint=vocabulary.fingerprint)
        return vocabulary

    async def _vocabulary(self, model: TextModel) -> pb.GetVocabularyResponse:
        """Builds the vocabulary of a model when it is first asked for, beside the event loop."""
        async with self._vocabulary_lock:
            if model.name not in self._vocabularies:
                self._vocabularies[model.name] = await asyncio.to_thread(vocabulary_of, model)
            return self._vocabularies[model.name]

    def _model(self, name: str) -> TextModel:
        model = self._models.get(name)
        if model is None:
            raise ModelNotFound(f"model {name!r} does not exist; there are: {', '.join(self._models)}", param="model")
        return model


def _messages(conversation: pb.Conversation) -> list[dict[str, str]]:
    if not conversation.messages:
        raise InvalidRequest("messages must not be empty", param="messages")
    return [
        {"role": message.role, "content": message.content} | ({"name": message.name} if message.name else {})
        for message in conversation.messages
    ]


def _opens_answer(conversation: pb.Conversation) -> bool:
    return conversation.add_generation_prompt if conversation.HasField("add_generation_prompt") else True
