"""Mistakes in bodies are explained in words of our own, naming field and bound."""

import json
from typing import Any

import pytest

from headrace.errors import InvalidRequest
from headrace.gateway.api.anthropic.message_body import MessageBody
from headrace.gateway.api.entry.model_body import ModelBody, parse
from headrace.gateway.api.openai.responses.response_body import ResponseBody
from headrace.gateway.api.openai.schema import ChatBody, CompletionBody

CHAT = {"model": "m", "messages": [{"role": "user", "content": "a"}]}


@pytest.mark.parametrize(
    ("schema", "fields", "says"),
    [
        (ChatBody, {"model": 7}, "model must be a string"),
        (ChatBody, {"messages": []}, "messages must not be empty"),
        (ChatBody, {"messages": "a"}, "messages must be a list"),
        (ChatBody, {"messages": [1]}, "messages.0 must be an object"),
        (ChatBody, {"messages": [{"role": "king", "content": "a"}]}, "messages.0.role must be 'system'"),
        (ChatBody, {"temperature": 3}, "temperature must be at most 2"),
        (ChatBody, {"temperature": "hot"}, "temperature must be a number"),
        (ChatBody, {"top_p": 0}, "top_p must be above 0"),
        (ChatBody, {"n": 1.5}, "n must be an integer"),
        (ChatBody, {"stream": 1}, "stream must be true or false"),
        (ChatBody, {"seed": 2**70}, "seed must be"),
        (ChatBody, {"stream_options": {"x": 1}}, "stream_options.x is not known"),
        (ChatBody, {"response_format": {"type": "xml"}}, "response_format has the 'type' 'xml'"),
        (ChatBody, {"response_format": {}}, "response_format must say its 'type'"),
        (ChatBody, {"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools.0.function.name must match"),
        (CompletionBody, {"prompt": 1}, "prompt must be a string, a list of strings"),
        (CompletionBody, {"prompt": "a", "logprobs": 21}, "logprobs must be at most 20"),
        (ResponseBody, {"input": 1}, "input must be"),
        (MessageBody, {"messages": [{"role": "user", "content": "a"}]}, "max_tokens is required"),
    ],
)
def test_a_mistake_is_explained(schema: type[ModelBody], fields: dict[str, Any], says: str) -> None:
    body = {"model": "m"} | (CHAT if schema is ChatBody else {}) | fields
    with pytest.raises(InvalidRequest) as refused:
        parse(schema, json.dumps(body).encode())
    assert refused.value.message.startswith(says)
    assert refused.value.param == says.split()[0].split(".")[0]
