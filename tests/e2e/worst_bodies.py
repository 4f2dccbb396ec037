"""The largest bodies that limits allow, of the worst texts known for each step of a request."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

MODEL = "headrace-demo"
SIZE = 7_900_000
TEXTS = {
    "digits": "1234 5678 ",
    "accounts": "DE12 ",
    "letters": "a",
    "spaces": " ",
    "signs": "a@b.c ",
    "tags": "<tool_call>",
    "words": "foo",
}
FEW_TEXTS = {name: TEXTS[name] for name in ("digits", "spaces", "signs")}
"""Those that are sent over every protocol."""
LONG_KEYS = {"properties": {"." * 1900: {}}, "additionalProperties": {"type": "string"}}
"""A long key that is listed, where all others have a schema of their own."""
WIDE_SCHEMA = {"type": "object", "properties": {f"p{number}": {"type": "string"} for number in range(2500)}}


class WorstBody(NamedTuple):
    """One request."""

    name: str
    path: str
    content: bytes


def repeated(piece: str, size: int = SIZE) -> str:
    return piece * (size // len(piece.encode()))


def worst_bodies() -> Iterator[WorstBody]:
    """Yields bodies for every route that reads one."""
    for name, piece in TEXTS.items():
        said = [{"role": "user", "content": repeated(piece)}]
        yield _worst(f"{name} chat", "/v1/chat/completions", {"messages": said})
        yield _worst(f"{name} moderation", "/v1/moderations", {"input": repeated(piece, 999_999)})
    text = repeated(TEXTS["digits"])
    said = [{"role": "user", "content": text}]
    for path, fields in (
        ("/v1/completions", {"prompt": text}),
        ("/v1/messages", {"messages": said}),
        ("/v1/responses", {"input": text, "max_output_tokens": 16}),
        ("/v1/messages/count_tokens", {"messages": said}),
        ("/v1/moderations", {"input": text}),
        ("/tokenize", {"prompt": text}),
    ):
        yield _worst(f"digits {path}", path, fields)
    yield _worst("spaces /tokenize", "/tokenize", {"prompt": repeated(TEXTS["spaces"])})
    yield from _many()
    yield from _forms()
    yield from _spellings()


def _many() -> Iterator[WorstBody]:
    """Bodies of as many parts as are allowed."""
    ids = list(range(1, 500)) * 900
    yield _worst("ids", "/v1/completions", {"prompt": ids})
    yield _worst("lists of ids", "/v1/completions", {"prompt": [[1] * 24] * 19_000})
    yield _worst("ids", "/v1/embeddings", {"input": ids})
    yield _worst("ids", "/detokenize", {"tokens": ids})
    for name, part in (("texts", "a"), ("nothing", None)):
        for path, field in (
            ("/v1/moderations", "input"),
            ("/v1/embeddings", "input"),
            ("/v1/completions", "stop"),
            ("/v1/completions", "stop_token_ids"),
        ):
            yield _worst(f"{name} {path} {field}", path, {"prompt": "a", field: [part] * 450_000})
        yield _worst(f"{name} score", "/v1/score", {"text_1": [part] * 220_000, "text_2": [part] * 220_000})
        yield _worst(f"{name} rerank", "/v1/rerank", {"query": "a", "documents": [part] * 450_000})
    yield _worst("parts", "/v1/moderations", {"input": [{"type": "text", "text": "1234 5678 " * 20}] * 2048})
    message = {"role": "user", "content": "1234 " * 100}
    yield _worst("messages", "/v1/chat/completions", {"messages": [message] * 9900})
    yield _worst("messages", "/v1/messages", {"messages": [message] * 9900})
    yield _worst("items", "/v1/responses", {"input": [message] * 9900})
    parts = [{"type": "text", "text": "1234 "}] * 9900
    yield _worst("parts", "/v1/chat/completions", {"messages": [{"role": "user", "content": parts}]})
    yield _worst("fields", "/v1/completions", {f"k{number}": 1 for number in range(19_000)})
    yield _worst("bias", "/v1/completions", {"prompt": "a", "logit_bias": {str(n): 1 for n in range(19_000)}})
    yield _worst("unknown", "/v1/completions", {"prompt": "a", "max_tokens": 1, "unknown": ids})
    yield _worst("metadata", "/v1/batches", {"metadata": {str(number): "a" for number in range(9000)}})


def _forms() -> Iterator[WorstBody]:
    """Bodies with something that is compiled, rendered or searched."""
    ask: dict[str, Any] = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1}
    for name, schema in (
        ("wide", WIDE_SCHEMA),
        ("keys", {"properties": {f"o{number}": LONG_KEYS for number in range(30)}}),
        ("values", {"enum": [f"e{number}" for number in range(400_000)]}),
        ("pattern", {"type": "string", "pattern": repeated("(a|b)*")}),
    ):
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        yield _worst(f"{name} form", "/v1/chat/completions", ask | {"response_format": form})
        tool = {"type": "function", "function": {"name": "x", "parameters": schema}}
        yield _worst(f"{name} tool", "/v1/chat/completions", ask | {"tools": [tool], "tool_choice": "required"})
    for field, value in (
        ("guided_regex", repeated("(a|b)*")),
        ("guided_grammar", repeated('root ::= "a"\n', 6_000_000)),
        ("guided_choice", [repeated("a", 7000)] * 1000),
        ("guided_json", json.dumps({"enum": ["e" * 10] * 250_000})),
        ("stop", repeated("a")),
    ):
        yield _worst(field, "/v1/completions", {"prompt": "a", "max_tokens": 1, field: value})
    arguments = json.dumps({"a": repeated("1234 5678 ", SIZE // 2)})
    for name, text in (("arguments", arguments), ("deep arguments", "[" * 6_000_000)):
        call = {"id": "a", "type": "function", "function": {"name": "x", "arguments": text}}
        messages = [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [call]}]
        yield _worst(name, "/v1/chat/completions", {"messages": messages, "max_tokens": 1})
    yield _worst("variables", "/v1/chat/completions", ask | {"chat_template_kwargs": {"a": list(range(400_000))}})
    yield _worst("description", "/v1/chat/completions", ask | {"tools": [_described(repeated("1234 5678 "))]})
    yield WorstBody("model", "/v1/completions", json.dumps({"model": repeated("a"), "prompt": "a"}).encode())


def _spellings() -> Iterator[WorstBody]:
    """Bodies that are costly to read as JSON, or are none."""
    for name, spelled in (("escaped", "\\u0041"), ("pairs", "\\ud83d\\ude00"), ("half pairs", "\\ud83d")):
        text = '"' + spelled * (SIZE // len(spelled)) + '"'
        yield WorstBody(name, "/v1/completions", f'{{"model":"{MODEL}","prompt":{text}}}'.encode())
    yield WorstBody("cut off", "/v1/completions", b"{" + b'"a":1,' * 10_000 + b"x" * 7_000_000)
    yield WorstBody("deep", "/v1/completions", b"[" * 7_000_000)
    yield WorstBody("quotes", "/v1/completions", b'{"a":[' + b'"\\"",' * 400_000 + b'"a"]}')
    yield WorstBody("white space", "/v1/completions", b" " * SIZE)


def _described(text: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "x", "description": text}}


def _worst(name: str, path: str, fields: dict[str, Any]) -> WorstBody:
    content = {"model": MODEL} | ({"max_tokens": 1} if path == "/v1/messages" else {}) | fields
    return WorstBody(name, path, json.dumps(content, ensure_ascii=False).encode())
