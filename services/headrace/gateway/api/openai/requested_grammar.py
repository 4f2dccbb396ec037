"""The grammar that a request asks for. Its size is checked here; only the worker knows whether it can be followed."""

from collections.abc import Sequence
from typing import Any

import msgspec

from headrace.errors import InvalidRequest
from headrace.gateway.api.openai.fields.output_format import JsonObjectFormat, JsonSchemaFormat
from headrace.gateway.api.openai.schema import Body
from headrace.gateway.chat.output_grammar import OutputGrammar
from headrace.v1.generation_pb2 import (
    GRAMMAR_KIND_CHOICE,
    GRAMMAR_KIND_JSON_OBJECT,
    GRAMMAR_KIND_JSON_SCHEMA,
    GRAMMAR_KIND_LARK,
    GRAMMAR_KIND_REGEX,
    GRAMMAR_KIND_UNSPECIFIED,
    GrammarKind,
)

MAX_GRAMMAR_BYTES = 64 * 1024

_Wish = tuple["GrammarKind.ValueType", Any, str]
"""Kind, value (None where it was not given) and request field."""


def requested_grammar(body: Body) -> OutputGrammar | None:
    """Returns the requested grammar. Raises InvalidRequest if there are several, or if the one is too large."""
    wishes = [wish for wish in (*_of_response_format(body), *_of_fields(body)) if wish[1] is not None]
    if body.structured_outputs is not None and all(param != "structured_outputs" for _, _, param in wishes):
        raise InvalidRequest(
            "structured_outputs must hold json, json_object, regex, choice or grammar", param="structured_outputs"
        )
    if len(wishes) > 1:
        first, second = wishes[0][2], wishes[1][2]
        raise InvalidRequest(f"the output can have one format only, not that of {first} and of {second}", param=second)
    for kind, value, param in wishes:
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        grammar = OutputGrammar(kind=kind, text=text, parameter=param)
        check_grammar(grammar)
        return grammar
    return None


def check_grammar(grammar: OutputGrammar) -> None:
    """Raises InvalidRequest for grammars that can be refused without compiling."""
    param = grammar.parameter or "grammar"
    if grammar.kind == GRAMMAR_KIND_UNSPECIFIED:
        raise InvalidRequest(f"{param} must have a kind", param=param)
    size = len(grammar.text.encode())
    if size > MAX_GRAMMAR_BYTES:
        raise InvalidRequest(f"{param} has {size} bytes; at most {MAX_GRAMMAR_BYTES} are allowed", param=param)


def _only_tokens(token_ids: Sequence[int] | None) -> str | None:
    """Writes a grammar of these tokens alone."""
    if token_ids is None:
        return None
    if not token_ids:
        raise InvalidRequest("allowed_token_ids must not be empty", param="allowed_token_ids")
    return f"start: <[{','.join(map(str, sorted(set(token_ids))))}]>*"


def _of_response_format(body: Body) -> list[_Wish]:
    given, param = body.response_format, "response_format"
    if isinstance(given, JsonSchemaFormat) and given.json_schema.content is not None:
        return [(GRAMMAR_KIND_JSON_SCHEMA, given.json_schema.content, param)]
    if isinstance(given, JsonObjectFormat) and given.content:
        return [(GRAMMAR_KIND_JSON_SCHEMA, given.content, param)]
    if isinstance(given, JsonSchemaFormat | JsonObjectFormat):
        return [(GRAMMAR_KIND_JSON_OBJECT, "", param)]
    return []


def _of_fields(body: Body) -> list[_Wish]:
    wishes: list[_Wish] = [
        (GRAMMAR_KIND_JSON_SCHEMA, body.guided_json, "guided_json"),
        (GRAMMAR_KIND_REGEX, body.guided_regex, "guided_regex"),
        (GRAMMAR_KIND_CHOICE, body.guided_choice, "guided_choice"),
        (GRAMMAR_KIND_LARK, body.guided_grammar, "guided_grammar"),
        (GRAMMAR_KIND_LARK, body.grammar or None, "grammar"),
        (GRAMMAR_KIND_LARK, body.ebnf or None, "ebnf"),
        (GRAMMAR_KIND_REGEX, body.regex or None, "regex"),
        (GRAMMAR_KIND_JSON_SCHEMA, None if body.json_schema == "" else body.json_schema, "json_schema"),
        (GRAMMAR_KIND_LARK, _only_tokens(body.allowed_token_ids), "allowed_token_ids"),
    ]
    if (given := body.structured_outputs) is not None:
        wishes += [
            (GRAMMAR_KIND_JSON_SCHEMA, given.json_schema, "structured_outputs"),
            (GRAMMAR_KIND_JSON_OBJECT, "" if given.json_object else None, "structured_outputs"),
            (GRAMMAR_KIND_REGEX, given.regex, "structured_outputs"),
            (GRAMMAR_KIND_CHOICE, given.choice, "structured_outputs"),
            (GRAMMAR_KIND_LARK, given.grammar, "structured_outputs"),
        ]
    return wishes
