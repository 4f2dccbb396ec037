"""The routes /v1/rerank and /v1/score: how close texts are, by a model that scores pairs of them, or by their
embeddings."""

from collections.abc import Mapping
from typing import Any

from headrace.errors import InvalidRequest
from headrace.gateway.api.entry.http_admission import HttpAdmission
from headrace.gateway.api.openai.schema import RankedBody, RerankBody, ScoreBody
from headrace.gateway.config import GatewaySettings
from headrace.gateway.delivery.pipeline import Pipeline
from headrace.gateway.delivery.text_comparison import compare
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.exchange import Handler, HttpExchange
from headrace.gateway.job.compared_texts import ComparedTexts, highest
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
            compared = ComparedTexts([body.query], texts, field, body.instruct or "")
            job, scores = await self._compare(body, compared, envelope, is_raw=bool(body.raw_scores))
            order = highest(scores, body.top_n)
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
            compared = ComparedTexts(first, second, field, body.instruct or "")
            job, scores = await self._compare(body, compared, envelope)
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
        self, body: RankedBody, compared: ComparedTexts, envelope: Envelope, *, is_raw: bool = False
    ) -> tuple[EmbeddingJob, list[float]]:
        options = EmbeddingOptions(max_token_count=body.truncate_prompt_tokens)
        return await compare(self._pipeline, body.model, compared, options, envelope, is_raw=is_raw)


def _ranked(result: dict[str, Any], body: RerankBody) -> dict[str, Any]:
    """Returns a result as text-embeddings-inference writes it, whose requests have `texts`."""
    text = {"text": result["document"]["text"]} if body.return_text else {}
    return {"index": result["index"], "score": result["relevance_score"]} | text


def _result(index: int, score: float, text: str, with_document: bool) -> dict[str, Any]:
    result: dict[str, Any] = {"index": index, "relevance_score": score}
    return result | ({"document": {"text": text}} if with_document else {})
