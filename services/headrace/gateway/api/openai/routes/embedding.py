"""The route /v1/embeddings."""

from collections.abc import Mapping
from functools import partial

import msgspec

from headrace.errors import InvalidRequest
from headrace.gateway.api.entry.api_call import AnswerWhole, ApiCall
from headrace.gateway.api.entry.http_admission import HttpAdmission
from headrace.gateway.api.openai.embedding_format import embedding_list, encoded, kept
from headrace.gateway.api.openai.options import inputs_of
from headrace.gateway.api.openai.schema import EmbeddingBody
from headrace.gateway.config import GatewaySettings
from headrace.gateway.delivery.pipeline import Pipeline
from headrace.gateway.delivery.preparation import SEQUENCES_AT_ONCE
from headrace.gateway.delivery.streams.joined import joined
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.exchange import Handler, HttpExchange
from headrace.gateway.job.embedding_job import EmbeddingOptions
from headrace.gateway.job.sequence_request import SequenceRequest
from headrace.gateway.request.ledger import Ledger
from headrace.gateway.timing.stopwatch import SERIALIZE
from headrace.gateway.timing.timings_format import timings_of


class EmbeddingRoutes:
    """Turns an exchange into a job, runs it, and writes the result."""

    describe_error = staticmethod(error_body)
    scopes = frozenset({"embed"})

    def __init__(self, settings: GatewaySettings, pipeline: Pipeline, ledger: Ledger) -> None:
        self._settings = settings
        self._pipeline = pipeline
        self._admission = HttpAdmission(settings, pipeline, ledger)

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {"/v1/embeddings": {"POST": self.embeddings}}

    def whole_answers(self) -> Mapping[str, AnswerWhole]:
        return {"/v1/embeddings": self.embed}

    async def embeddings(self, exchange: HttpExchange) -> None:
        await self.embed(exchange, await exchange.read_body())

    async def embed(self, call: ApiCall, content: bytes) -> None:
        """Answers with the embeddings of texts. Raises HeadraceError."""
        body = self._admission.read(call, EmbeddingBody, content, embeds=True)
        inputs = inputs_of(body)
        if len(inputs) > self._settings.max_inputs:
            raise InvalidRequest(
                f"there are {len(inputs)} inputs; at most {self._settings.max_inputs} are allowed", param="input"
            )
        options = EmbeddingOptions(
            dimension_count=body.dimensions,
            max_token_count=body.truncate_prompt_tokens,
            add_special_tokens=body.add_special_tokens,
        )
        async with self._admission.open(call, body, "embeddings", caches=True) as envelope:
            job = await self._pipeline.prepare.embeddings(body.model, inputs, options, envelope)
            calls = [partial(self._embed, sequence, body) for sequence in job.sequences()]
            answer = embedding_list(job, await joined(calls, SEQUENCES_AT_ONCE))
            envelope.account.finish()
            await call.send_json(200, answer | ({"timings": timings_of(call.record)} if body.timings else {}))

    async def _embed(self, sequence: SequenceRequest, body: EmbeddingBody) -> msgspec.Raw:
        embedding = await self._pipeline.embedding(sequence)
        text = encoded(kept(embedding.values, body.dimensions), body.encoding_format or "float")
        sequence.envelope.record.stopwatch.lap(SERIALIZE)
        return text
