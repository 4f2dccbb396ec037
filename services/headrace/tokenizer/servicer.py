"""TokenizerService: converts, calls, converts."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import grpc

from headrace.errors import InvalidRequest, ModelNotFound
from headrace.rpc.checked_ids import check_token_ids
from headrace.telemetry.traces import span
from headrace.tokenizer.encoding_pool import EncodingPool
from headrace.tokenizer.text_model import TextModel
from headrace.tokenizer.vocabulary import vocabulary_of
from headrace.v1 import tokenizer_pb2 as pb
from headrace.v1 import tokenizer_pb2_grpc

_log = logging.getLogger(__name__)
Context = grpc.aio.ServicerContext[Any, Any]


class TokenizerServicer(tokenizer_pb2_grpc.TokenizerServiceServicer):
    """Serves the text models it is given."""

    def __init__(self, models: Mapping[str, TextModel], pool: EncodingPool, inline_characters: int) -> None:
        self._models = models
        self._pool = pool
        self._inline_characters = inline_characters
        self._vocabularies: dict[str, pb.GetVocabularyResponse] = {}
        """One for each of `models` at most."""
        self._vocabulary_lock = asyncio.Lock()

    async def Encode(self, request: pb.EncodeRequest, context: Context) -> pb.EncodeResponse:  # noqa: N802
        model = self._model(request.model)
        with span("tokenize", {"gen_ai.request.model": model.name}):
            if request.WhichOneof("input") == "conversation":
                text, special = _render(model, request.conversation), False
            else:
                text = request.text
                special = request.add_special_tokens if request.HasField("add_special_tokens") else True
            limit = request.max_token_count if request.HasField("max_token_count") else None
            _log.debug("encoding", extra={"model": model.name, "characters": len(text)})
            if request.HasField("context_token_count") and len(text) > request.context_token_count:
                await asyncio.to_thread(model.check_length, text, request.context_token_count)
            if len(text) <= self._inline_characters:
                return pb.EncodeResponse(token_ids=model.encode(text, special, limit))
            return pb.EncodeResponse(token_ids=await self._pool.encode(model.name, text, special, limit))

    async def Decode(self, request: pb.DecodeRequest, context: Context) -> pb.DecodeResponse:  # noqa: N802
        model = self._model(request.model)
        check_token_ids(request.token_ids, model.vocabulary_size, "tokens")
        return pb.DecodeResponse(text=model.decode(request.token_ids, request.skip_special_tokens))

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


def _render(model: TextModel, conversation: pb.Conversation) -> str:
    messages = [
        {"role": message.role, "content": message.content} | ({"name": message.name} if message.name else {})
        for message in conversation.messages
    ]
    if not messages:
        raise InvalidRequest("messages must not be empty", param="messages")
    opens_answer = conversation.add_generation_prompt if conversation.HasField("add_generation_prompt") else True
    return model.render(messages, opens_answer)
