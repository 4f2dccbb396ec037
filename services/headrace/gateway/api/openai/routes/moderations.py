"""The route /v1/moderations: what the filter of a tenant would find."""

import uuid
from collections.abc import Mapping
from typing import Any

from headrace.errors import PayloadTooLarge
from headrace.gateway.api.entry.api_call import AnswerWhole, ApiCall
from headrace.gateway.api.entry.model_body import parse
from headrace.gateway.api.openai.schema import ModerationBody
from headrace.gateway.filter.detectors.pattern_set import PatternSet
from headrace.gateway.filter.detectors.personal_data import PERSONAL_DATA
from headrace.gateway.filter.filter_rules import FilterRules
from headrace.gateway.filter.filters import NOTHING, Filters
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.exchange import Handler, HttpExchange

_EVERYTHING = FilterRules([PatternSet(list(PERSONAL_DATA.values()))])
MODEL = "headrace-filter"
"""Name of the filter where a model is named."""
MAX_CHARACTERS, MAX_TEXTS = 1_000_000, 2048
"""Characters and texts of one request."""


class ModerationRoutes:
    """Tells what a filter finds, in the shape of OpenAI's moderations. Its categories are the filter's detectors."""

    describe_error = staticmethod(error_body)
    scopes = frozenset({"generate"})

    def __init__(self, filters: Filters) -> None:
        self._filters = filters

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {"/v1/moderations": {"POST": self.moderate}}

    def whole_answers(self) -> Mapping[str, AnswerWhole]:
        return {"/v1/moderations": self.search}

    async def moderate(self, exchange: HttpExchange) -> None:
        await self.search(exchange, await exchange.read_body())

    async def search(self, call: ApiCall, content: bytes) -> None:
        """Answers with what a filter finds in texts. Raises HeadraceError."""
        body = parse(ModerationBody, content)
        rules = self._filters.of(call.caller.tenant.name)
        used = _EVERYTHING if rules is NOTHING else rules
        texts, length = body.input, sum(map(len, body.input))
        if len(texts) > MAX_TEXTS or length > MAX_CHARACTERS:
            raise PayloadTooLarge(
                f"the input has {len(texts)} texts of {length} characters; at most {MAX_TEXTS} of {MAX_CHARACTERS} "
                "are searched at once: split it",
                param="input",
            )
        results = await self._filters.thread.run(length, len(texts), _results, used, texts)
        await call.send_json(200, {"id": f"modr-{uuid.uuid4().hex}", "model": MODEL, "results": results})


def _results(rules: FilterRules, texts: list[str]) -> list[dict[str, Any]]:
    return [_result(rules, text) for text in texts]


def _result(rules: FilterRules, text: str) -> dict[str, Any]:
    found = {finding.name for finding in rules.findings(text)}
    categories = {name: name in found for name in rules.names}
    return {
        "flagged": bool(found),
        "categories": categories,
        "category_scores": {name: float(is_found) for name, is_found in categories.items()},
        "category_applied_input_types": {name: ["text"] for name in categories},
    }
