"""The routes of /v1/models."""

import asyncio
import contextlib
import time
from collections.abc import Mapping

from headrace.domain.deadline import Deadline
from headrace.errors import HeadraceError, ModelNotFound
from headrace.gateway.delivery.pipeline import Pipeline
from headrace.gateway.fleet.model_facts import ModelFacts
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.exchange import Handler, HttpExchange

_PATH = "/v1/models"
PATIENCE_SECONDS = 0.5
"""Seconds that a tokenizer has to tell whether a model can chat. Without an answer the list says nothing of it."""


class ModelRoutes:
    """Lists the models, and describes each."""

    describe_error = staticmethod(error_body)
    scopes = frozenset[str]()

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._started = int(time.time())

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {_PATH: {"GET": self._list_models}, f"{_PATH}/{{name}}": {"GET": self._show_model}}

    async def _describe(self, model: ModelFacts) -> dict[str, object]:
        described: dict[str, object] = {
            "id": model.model,
            "object": "model",
            "created": self._started,
            "owned_by": "headrace",
            "root": model.model,
            "parent": model.parent or None,
            "max_model_len": model.max_model_length,
            "max_model_length": model.max_model_length,
            "architecture": model.architecture,
            "precision": model.precision,
            "parameter_count": model.parameter_count,
        }
        if model.embedding_size:
            scoring = {"scores_pairs": True} if model.scores_pairs else {}
            return described | {"embedding_size": model.embedding_size} | scoring
        with contextlib.suppress(HeadraceError):
            vocabulary = await self._pipeline.encoder.vocabulary(model.model, Deadline.after(PATIENCE_SECONDS))
            described["can_chat"] = vocabulary.has_chat_template
        return described

    async def _list_models(self, exchange: HttpExchange) -> None:
        models = [model for model in self._pipeline.fleet.listed() if exchange.caller.may_use(model.model)]
        data = await asyncio.gather(*map(self._describe, models))
        by_name = {str(described["id"]): described for described in data}
        aliases = sorted(self._pipeline.fleet.names.aliases.items())
        data += [by_name[model] | {"id": alias} for alias, model in aliases if model in by_name]
        await exchange.send_json(200, {"object": "list", "data": data})

    async def _show_model(self, exchange: HttpExchange) -> None:
        asked = exchange.path.removeprefix(f"{_PATH}/")
        name = self._pipeline.fleet.names.resolve(asked)
        if not exchange.caller.may_use(name):
            raise ModelNotFound(f"model {asked!r} is not among those of this API key", param="model")
        described = await self._describe(await self._pipeline.fleet.find(name))
        await exchange.send_json(200, described | {"id": asked})
