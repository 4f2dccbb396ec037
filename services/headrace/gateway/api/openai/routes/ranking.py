"""The routes /v1/rerank and /v1/score: how close texts are, by their embeddings."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from headrace.errors import InvalidRequest
from headrace.gateway.api.entry.http_admission import HttpAdmission
from headrace.gateway.api.openai.schema import RankedBody, RerankBody, ScoreBody
from headrace.gateway.config import GatewaySettings
from headrace.gateway.delivery.pipeline import Pipeline
from headrace.gateway.delivery.preparation import SEQUENCES_AT_ONCE
from headrace.gateway.delivery.streams.joined import joined
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.exchange import Handler, HttpExchange
from headrace.gateway.job.embedding_job import EmbeddingJob, EmbeddingOptions
from headrace.gateway.request.envelope import Envelope
from headrace.gateway.request.ledger import Ledger


class RankingRoutes:
    """Compares texts by the cosine of the angle between their embeddings."""

    describe_error = staticmethod(error_body)
    scopes = frozenset({"embed"})

    def __init__(self, settings: GatewaySettings, pipeline: Pipeline, ledger: Ledger) -> None:
        self._settings = settings
        self._pipeline = pipeline
        self._admission = HttpAdmission(settings, pipeline, ledger)

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {"/v1/rerank": {"POST": self.rerank}, "/v1/score": {"POST": self.score}}

    async def rerank(self, exchange: HttpExchange) -> None:
        body = self._admission.read(exchange, RerankBody, await exchange.read_body(), embeds=True)
        texts = body.candidates
        self._check(len(texts) + 1, "documents")
        async with self._admission.open(exchange, body, "embeddings", caches=True) as envelope:
            field = "documents" if body.texts is None else "texts"
            job, vectors = await self._embed(body, [body.query, *texts], envelope, field)
            scores = [cosine(vectors[0], vector) for vector in vectors[1:]]
            order = sorted(range(len(texts)), key=lambda index: (-scores[index], index))[: body.top_n]
            results = [_result(index, scores[index], texts[index], body.shows_texts) for index in order]
            if body.texts is not None:
                await exchange.send_json(200, [_ranked(result, body) for result in results])
                return
            usage = {"prompt_tokens": job.token_count, "total_tokens": job.token_count}
            name = f"rerank-{envelope.request_id}"
            await exchange.send_json(200, {"id": name, "model": body.model, "results": results, "usage": usage})

    async def score(self, exchange: HttpExchange) -> None:
        body = self._admission.read(exchange, ScoreBody, await exchange.read_body(), embeds=True)
        first, second = body.pairs
        field = "text_2" if body.documents is None else "documents"
        self._check(len(first) + len(second), field)
        async with self._admission.open(exchange, body, "embeddings", caches=True) as envelope:
            job, vectors = await self._embed(body, [*first, *second], envelope, field)
            others = vectors[len(first) :]
            data = [
                {"object": "score", "index": index, "score": cosine(vectors[index % len(first)], other)}
                for index, other in enumerate(others)
            ]
            usage = {"prompt_tokens": job.token_count, "total_tokens": job.token_count}
            name = f"score-{envelope.request_id}"
            listed = {"id": name, "object": "list", "model": body.model, "data": data, "usage": usage}
            await exchange.send_json(200, listed)

    def _check(self, count: int, param: str) -> None:
        if count > self._settings.max_inputs:
            raise InvalidRequest(
                f"there are {count} texts; at most {self._settings.max_inputs} are allowed", param=param
            )

    async def _embed(
        self, body: RankedBody, texts: Sequence[str], envelope: Envelope, field: str
    ) -> tuple[EmbeddingJob, list[Sequence[float]]]:
        options = EmbeddingOptions(max_token_count=body.truncate_prompt_tokens)
        try:
            job = await self._pipeline.prepare.embeddings(body.model, texts, options, envelope)
        except InvalidRequest as error:
            if error.param != "input":
                raise
            raise type(error)(error.message, param=field, details=error.details) from None
        calls = [partial(self._pipeline.embedding, sequence) for sequence in job.sequences()]
        found = await joined(calls, SEQUENCES_AT_ONCE)
        envelope.account.finish()
        return job, [embedding.values for embedding in found]


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    """Returns the cosine of the angle between two vectors, in [-1, 1]; 0 where one has no length."""
    dot = math.fsum(one * two for one, two in zip(first, second, strict=True))
    lengths = math.sqrt(math.fsum(one * one for one in first) * math.fsum(two * two for two in second))
    return max(-1.0, min(1.0, dot / lengths)) if lengths else 0.0


def _ranked(result: dict[str, Any], body: RerankBody) -> dict[str, Any]:
    """Returns a result as text-embeddings-inference writes it, whose requests have `texts`."""
    text = {"text": result["document"]["text"]} if body.return_text else {}
    return {"index": result["index"], "score": result["relevance_score"]} | text


def _result(index: int, score: float, text: str, with_document: bool) -> dict[str, Any]:
    result: dict[str, Any] = {"index": index, "relevance_score": score}
    return result | ({"document": {"text": text}} if with_document else {})
