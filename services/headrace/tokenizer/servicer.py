"""TokenizerService: converts, calls, converts."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import grpc

from headrace.domain.encoded import Encoded
from headrace.domain.to_encode import TextToEncode, ToEncode
from headrace.errors import ModelNotFound
from headrace.rpc.checks.checked_ids import check_token_ids
from headrace.telemetry.traces import span
from headrace.tokenizer.processes.text_pool import TextPool
from headrace.tokenizer.text.text_model import TextModel
from headrace.tokenizer.text.vocabulary import Vocabulary
from headrace.tokenizer.translation import to_response, to_work, vocabulary_of
from headrace.v1 import tokenizer_pb2 as pb
from headrace.v1 import tokenizer_pb2_grpc

_log = logging.getLogger(__name__)
CHARACTERS_PER_TOKEN = 4
"""Rough characters per token, to compare token ids with texts."""
Context = grpc.aio.ServicerContext[Any, Any]


class TokenizerServicer(tokenizer_pb2_grpc.TokenizerServiceServicer):
    """Serves the text models it is given."""

    def __init__(self, models: Mapping[str, TextModel], pool: TextPool, inline_characters: int) -> None:
        self._models = models
        self._pool = pool
        self._inline_characters = inline_characters
        self._vocabularies: dict[str, Vocabulary] = {}
        """Vocabularies that were asked for, by model: at most one for each of `models`."""
        self._vocabulary_lock = asyncio.Lock()

    async def Encode(self, request: pb.EncodeRequest, context: Context) -> pb.EncodeResponse:  # noqa: N802
        model = self._model(request.model)
        with span("tokenize", {"gen_ai.request.model": model.name, "gen_ai.provider.name": "headrace"}) as current:
            encoded = await self._encode(model, to_work(request))
            current.set_attribute("gen_ai.usage.input_tokens", len(encoded.token_ids))
            return pb.EncodeResponse(token_ids=encoded.token_ids, opens_reasoning=encoded.opens_reasoning)

    async def Decode(self, request: pb.DecodeRequest, context: Context) -> pb.DecodeResponse:  # noqa: N802
        model = self._model(request.model)
        check_token_ids(request.token_ids, model.vocabulary_size, "tokens")
        if self._is_quick(model, len(request.token_ids) * CHARACTERS_PER_TOKEN):
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
        return to_response(vocabulary)

    async def _encode(self, model: TextModel, wanted: ToEncode) -> Encoded:
        if not isinstance(wanted, TextToEncode):
            return await self._pool.encode(wanted)
        count, limit = wanted.character_count, wanted.context_token_count
        _log.debug("encoding", extra={"model": model.name, "characters": count})
        if limit is not None and count > limit:
            # In a thread, because the first check reads the whole vocabulary.
            text = wanted.text + (wanted.pair_text or "") + wanted.instruction
            await asyncio.to_thread(model.check_length, text, limit)
        if self._is_quick(model, count):
            return Encoded(model.encode_text(wanted))
        return await self._pool.encode(wanted)

    def _is_quick(self, model: TextModel, character_count: int) -> bool:
        """Whether a text may be worked on here, where nothing stops a runaway search."""
        return character_count <= self._inline_characters and model.is_predictable

    async def _vocabulary(self, model: TextModel) -> Vocabulary:
        """Returns the vocabulary of a model, which is read beside the event loop when first asked for."""
        async with self._vocabulary_lock:
            if model.name not in self._vocabularies:
                self._vocabularies[model.name] = await asyncio.to_thread(vocabulary_of, model)
            return self._vocabularies[model.name]

    def _model(self, name: str) -> TextModel:
        model = self._models.get(name)
        if model is None:
            raise ModelNotFound(f"model {name!r} does not exist; there are: {', '.join(self._models)}", param="model")
        return model
