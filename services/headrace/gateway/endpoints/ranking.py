"""The routes /v1/rerank and /v1/score: how close texts are, by their embeddings."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from headrace.errors import InvalidRequest
from headrace.gateway.config import GatewaySettings
from headrace.gateway.delivery.pipeline import SEQUENCES_AT_ONCE, Pipeline
from headrace.gateway.delivery.streams.joined import joined
from headrace.gateway.endpoints.admission import Admission
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.exchange import Handler, HttpExchange
from headrace.gateway.openai.model_body import ModelBody, parse
from headrace.gateway.openai.schema import RerankBody, ScoreBody
from headrace.gateway.request.embedding_job import EmbeddingJob, EmbeddingOptions
from headrace.gateway.request.envelope import Envelope
from headrace.gateway.request.ledger import Ledger


class RankingRoutes:
    """Compares texts by the cosine of the angle between their embeddings."""

    describe_error = staticmethod(error_body)
    scopes = frozenset({"embed"})

    def __init__(self, settings: GatewaySettings, pipeline: Pipeline, ledger: Ledger) -> None:
        self._settings = settings
        self._pipeline = pipeline
        self._admission = Admission(settings, pipeline, ledger)

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {"/v1/rerank": {"POST": self.rerank}, "/v1/score": {"POST": self.score}}

    async def rerank(self, exchange: HttpExchange) -> None:
        body = parse(RerankBody, await exchange.read_body())
        texts = body.texts
        self._check(len(texts) + 1, "documents")
        async with self._admission.open(exchange, body, "embeddings", caches=True) as envelope:
            job, vectors = await self._embed(body, [body.query, *texts], envelope)
            scores = [cosine(vectors[0], vector) for vector in vectors[1:]]
            order = sorted(range(len(texts)), key=lambda index: (-scores[index], index))[: body.top_n]
            results = [_result(index, scores[index], texts[index], body.return_documents) for index in order]
            usage = {"total_tokens": job.token_count}
            name = f"rerank-{envelope.request_id}"
            await exchange.send_json(200, {"id": name, "model": body.model, "results": results, "usage": usage})

    async def score(self, exchange: HttpExchange) -> None:
        body = parse(ScoreBody, await exchange.read_body())
        first, second = body.pairs
        self._check(len(first) + len(second), "text_2")
        async with self._admission.open(exchange, body, "embeddings", caches=True) as envelope:
            job, vectors = await self._embed(body, [*first, *second], envelope)
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
        self, body: ModelBody, texts: Sequence[str], envelope: Envelope
    ) -> tuple[EmbeddingJob, list[Sequence[float]]]:
        job = await self._pipeline.prepare_embeddings(body.model, texts, EmbeddingOptions(), envelope)
        calls = [partial(self._pipeline.embedding, sequence) for sequence in job.sequences()]
        found = await joined(calls, SEQUENCES_AT_ONCE)
        envelope.account.finish()
        return job, [embedding.values for embedding in found]


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    """Returns the cosine of the angle between two vectors, in [-1, 1]; 0 where one has no length."""
    dot = math.fsum(one * two for one, two in zip(first, second, strict=True))
    lengths = math.sqrt(math.fsum(one * one for one in first) * math.fsum(two * two for two in second))
    return max(-1.0, min(1.0, dot / lengths)) if lengths else 0.0


def _result(index: int, score: float, text: str, with_document: bool | None) -> dict[str, Any]:
    result: dict[str, Any] = {"index": index, "relevance_score": score}
    return result | ({"document": {"text": text}} if with_document is not False else {})
