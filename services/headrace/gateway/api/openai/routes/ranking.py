"""The routes /v1/rerank and /v1/score: how close texts are, by a model that scores pairs of them, or by their
embeddings."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from headrace.domain.to_encode import INSTRUCT
from headrace.errors import InvalidRequest, Unsupported
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
    """Compares texts by the score of each pair, where the model has been trained to score pairs, and otherwise by the
    cosine of the angle between their embeddings."""

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
            compared = _Compared([body.query], texts, field)
            job, scores = await self._compare(body, compared, envelope, is_raw=bool(body.raw_scores))
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
            job, scores = await self._compare(body, _Compared(first, second, field), envelope)
            data = [{"object": "score", "index": index, "score": score} for index, score in enumerate(scores)]
            usage = {"prompt_tokens": job.token_count, "total_tokens": job.token_count}
            name = f"score-{envelope.request_id}"
            listed = {"id": name, "object": "list", "model": body.model, "data": data, "usage": usage}
            await exchange.send_json(200, listed)

    def _check(self, count: int, param: str) -> None:
        if count > self._settings.max_inputs:
            raise InvalidRequest(
                f"there are {count} texts; at most {self._settings.max_inputs} are allowed", param=param
            )

    async def _compare(
        self, body: RankedBody, compared: "_Compared", envelope: Envelope, *, is_raw: bool = False
    ) -> tuple[EmbeddingJob, list[float]]:
        """Returns what was computed, and how close the texts of each pair are. `is_raw`: whether scores of pairs are
        not made probabilities."""
        options = EmbeddingOptions(max_token_count=body.truncate_prompt_tokens)
        prepare, scores_pairs = self._pipeline.prepare, self._pipeline.fleet.comparing_model(body.model).scores_pairs
        if body.instruct and not scores_pairs:
            message = f"model {body.model} makes embeddings and takes no instruction: write it into the query"
            raise Unsupported(message, param=INSTRUCT)
        try:
            if scores_pairs:
                job = await prepare.pairs(body.model, compared.pairs, options, envelope, body.instruct or "")
            else:
                job = await prepare.embeddings(body.model, [*compared.first, *compared.second], options, envelope)
        except InvalidRequest as error:
            if error.param != "input":
                raise
            raise type(error)(error.message, param=compared.field, details=error.details) from None
        calls = [partial(self._pipeline.embedding, sequence) for sequence in job.sequences()]
        vectors = [embedding.values for embedding in await joined(calls, SEQUENCES_AT_ONCE)]
        envelope.account.finish()
        if scores_pairs:
            return job, [score if is_raw else sigmoid(score) for (score,) in vectors]
        return job, compared.cosines(vectors)


@dataclass(frozen=True, slots=True)
class _Compared:
    """Texts to compare: the first list has one for all of the second, or as many."""

    first: Sequence[str]
    second: Sequence[str]
    field: str
    """Field of the request that has the second list."""

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return [(self.first[index % len(self.first)], other) for index, other in enumerate(self.second)]

    def cosines(self, vectors: Sequence[Sequence[float]]) -> list[float]:
        """Returns how close the texts of each pair are, from the embeddings of the first list and of the second."""
        count = len(self.first)
        return [cosine(vectors[index % count], other) for index, other in enumerate(vectors[count:])]


def sigmoid(score: float) -> float:
    """Returns the probability that a score stands for: 1 / (1 + exp(-score)), in [0, 1]."""
    # Without overflow for scores of any size.
    return 1.0 / (1.0 + math.exp(-score)) if score >= 0 else math.exp(score) / (1.0 + math.exp(score))


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
