"""Fields that constrain or score the output are honored or refused by name in every API; empty ones ask for nothing."""

import json
from typing import Any

import pytest

from headrace.errors import Unsupported
from headrace.gateway.api.anthropic.message_body import CountBody, MessageBody
from headrace.gateway.api.entry.model_body import ModelBody, ignored_fields, parse
from headrace.gateway.api.openai.fields.constraints import REFUSED, refused_without
from headrace.gateway.api.openai.responses.response_body import ResponseBody
from headrace.gateway.api.openai.schema import ChatBody, CompletionBody

EMPTY: tuple[Any, ...] = (None, [], {}, "")
MESSAGES = [{"role": "user", "content": "a"}]
BODIES: list[tuple[type[ModelBody], dict[str, Any]]] = [
    (ChatBody, {"messages": MESSAGES}),
    (CompletionBody, {"prompt": "a"}),
    (ResponseBody, {"input": "a"}),
    (MessageBody, {"messages": MESSAGES, "max_tokens": 1}),
    (CountBody, {"messages": MESSAGES}),
]
OTHERS = [pair for pair in BODIES if pair[0] not in (ChatBody, CompletionBody)]
NAMES = [(schema, body, name) for schema, body in BODIES for name in schema.unsupported]


def read(schema: type[ModelBody], **fields: Any) -> ModelBody:
    return parse(schema, json.dumps(fields).encode())


@pytest.mark.parametrize(
    ("schema", "body", "name"),
    # A chat has this one, for some keys.
    [(*each, name) for each in BODIES for name in REFUSED if (each[0], name) != (ChatBody, "chat_template")],
)
def test_a_constraint_is_never_ignored(schema: type[ModelBody], body: dict[str, Any], name: str) -> None:
    for value in (["x"], {"a": 1}, "x", 7):
        with pytest.raises(Unsupported, match=f"^{name} is not supported") as refused:
            read(schema, **body, **{name: value})
        assert refused.value.param == name


@pytest.mark.parametrize("name", sorted(refused_without().keys() - REFUSED.keys()))
@pytest.mark.parametrize(("schema", "body"), OTHERS)
def test_a_constraint_of_chats_is_refused_elsewhere(schema: type[ModelBody], body: dict[str, Any], name: str) -> None:
    assert name in ChatBody.model_fields
    with pytest.raises(Unsupported, match=f"^{name} is not supported"):
        read(schema, **body, **{name: {"a": 1}})


@pytest.mark.parametrize(("schema", "body", "name"), NAMES)
def test_an_empty_value_asks_for_nothing(schema: type[ModelBody], body: dict[str, Any], name: str) -> None:
    for value in EMPTY:
        assert ignored_fields(read(schema, **body, **{name: value}), strict=True) == []


def test_a_search_of_the_web_is_left_out_and_named_even_with_no_wishes() -> None:
    body = read(ChatBody, messages=MESSAGES, web_search_options={})
    assert ignored_fields(body, strict=False) == ["web_search_options"]
