"""Every field of OpenAI's API in its SDK is honored or refused by name: docs/api-compatibility.md says which."""

import json
from pathlib import Path
from typing import Any, Literal, get_type_hints

import pytest
from openai.types.chat import completion_create_params as chat_params
from openai.types.completion_create_params import CompletionCreateParamsBase
from openai.types.embedding_create_params import EmbeddingCreateParams
from openai.types.responses.response_create_params import ResponseCreateParamsBase

from headrace.errors import InvalidRequest, Unsupported
from headrace.gateway.api.entry.model_body import ModelBody, ignored_fields, parse
from headrace.gateway.api.openai.responses.response_body import ResponseBody
from headrace.gateway.api.openai.schema import ChatBody, CompletionBody, EmbeddingBody

PAGE = Path(__file__).parents[5] / "docs" / "api-compatibility.md"
APIS: dict[str, tuple[Any, type[ModelBody], dict[str, Any]]] = {
    "/v1/chat/completions": (
        chat_params.CompletionCreateParamsBase,
        ChatBody,
        {"model": "m", "messages": [{"role": "user", "content": "a"}]},
    ),
    "/v1/completions": (CompletionCreateParamsBase, CompletionBody, {"model": "m", "prompt": "a"}),
    "/v1/responses": (ResponseCreateParamsBase, ResponseBody, {"model": "m", "input": "a"}),
    "/v1/embeddings": (EmbeddingCreateParams, EmbeddingBody, {"model": "m", "input": "a"}),
}
WRONG: tuple[Any, ...] = ({"no": ["such", "value"]}, ["no such value"], 7.5)
"""Values of which each field refuses at least one."""
WITHOUT_EFFECT = {
    "metadata",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "truncation",
    "user",
    "verbosity",
}
"""Fields that are accepted without changing the answer: there is nothing that they would ask of these models."""
INTRODUCTION = """# Compatibility with OpenAI's API

Written by `python -m tests.services.gateway.api.openai.test_sdk_fields`, from the types of OpenAI's Python SDK and the
bodies that the gateway reads; a test fails where this page, the SDK and the gateway differ. What is *refused* gets a
400 that names the field, unless its value asks for nothing. What is *without effect* is accepted: there is nothing
that it would change. What is *left out* gets an answer without it, and is named in `x-headrace-ignored-fields`.
Extensions, as vLLM's users know them, are in [the API guide](guide/api.md)."""
Kind = Literal["honored", "without effect", "left out", "refused"]


def fields_of(params: Any) -> list[str]:
    return sorted(get_type_hints(params, include_extras=True))


def kind_of(schema: type[ModelBody], name: str) -> Kind:
    if name in schema.model_fields:
        return "without effect" if name in WITHOUT_EFFECT else "honored"
    if name in schema.dispensable:
        return "left out"
    if name in schema.unsupported:
        return "refused"
    raise AssertionError(f"{schema.__name__} neither knows {name} nor refuses it")


def known() -> list[tuple[str, str]]:
    return [(api, name) for api, (params, _, _) in APIS.items() for name in fields_of(params)]


@pytest.mark.parametrize(("api", "name"), known())
def test_a_field_is_honored_or_refused_by_name(api: str, name: str) -> None:
    _, schema, body = APIS[api]
    if kind_of(schema, name) == "refused":
        with pytest.raises(Unsupported, match=f"^{name} is not supported") as refused:
            parse(schema, json.dumps(body | {name: {"anything": 1}}).encode())
        assert refused.value.param == name
    elif kind_of(schema, name) == "left out":
        parsed = parse(schema, json.dumps(body | {name: {"anything": 1}}).encode())
        assert ignored_fields(parsed, strict=False) == [name]
    else:
        assert any(is_refused(schema, body | {name: wrong}) for wrong in WRONG), f"{name} takes any value: is it read?"


def is_refused(schema: type[ModelBody], body: dict[str, Any]) -> bool:
    try:
        parse(schema, json.dumps(body).encode())
    except InvalidRequest:
        return True
    return False


def written() -> str:
    """The page, from the SDK's types and the bodies' fields."""
    lines = [INTRODUCTION]
    for api, (params, schema, _) in APIS.items():
        lines += ["", f"## {api}", "", "| field | |", "|---|---|"]
        lines += [f"| `{name}` | {kind_of(schema, name)} |" for name in fields_of(params)]
    return "\n".join(lines) + "\n"


def test_the_page_says_so() -> None:
    assert PAGE.read_text() == written()


if __name__ == "__main__":
    PAGE.write_text(written())
