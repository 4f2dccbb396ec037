"""Translates a grammar into what llguidance reads. Refuses what could not be followed, or would crash the reader."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from llguidance import LLMatcher, grammar_from

from headrace.engine.contract.grammar import Grammar, GrammarKind
from headrace.engine.grammar.free_keys import keep_free_keys_apart
from headrace.engine.grammar.grammar_refusal import refusal
from headrace.engine.grammar.multiples import check_multiples, check_multiples_in_text
from headrace.engine.grammar.repeated_keys import check_key_counts
from headrace.errors.tree import InvalidRequest, Unsupported

MAX_RULE_COUNT = 1000
"""Maximum number of rules of a Lark grammar. llguidance 1.9.1 recurses through chains of rules and overflows the stack
at some 8000."""

_JSON_OPTIONS: Mapping[str, Any] = {
    # Between two values at most one space: models like to write it, and none can emit whitespace for ever.
    "item_separator": ", ?",
    "key_separator": ": ?",
    "whitespace_flexible": False,
    "coerce_one_of": False,
    "lenient": False,
}
_OPTIONS_KEYWORD = "x-guidance"
"""Keyword of a schema under which llguidance reads its options."""


def write_source(grammar: Grammar) -> str:
    """Writes the grammar in llguidance's own form. Raises InvalidRequest."""
    try:
        return _WRITERS[grammar.kind](grammar.text)
    except InvalidRequest as error:
        raise type(error)(error.message, param=grammar.param) from None
    except ValueError as error:
        raise refusal(grammar, str(error)) from None


def _json_schema(text: str) -> str:
    schema = _read(text, "json_schema")
    _prepare(schema)
    return LLMatcher.grammar_from_json_schema(schema, overrides=_JSON_OPTIONS)  # type: ignore[arg-type]


def _read(text: str, name: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"the {name} is not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise InvalidRequest(f"the {name} must be a JSON object")
    return content


def _prepare(schema: dict[str, Any]) -> None:
    """Checks a schema, and changes in place what llguidance would not follow. Raises Unsupported."""
    if _OPTIONS_KEYWORD in schema:
        raise Unsupported(f'the json_schema uses "{_OPTIONS_KEYWORD}", which is not supported')
    check_multiples(schema)
    check_key_counts(schema)
    keep_free_keys_apart(schema)


def _json_object(_text: str) -> str:
    return _json_schema('{"type": "object"}')


def _lark(text: str) -> str:
    rule_count = len(re.findall(":+", text))
    if rule_count > MAX_RULE_COUNT:
        raise InvalidRequest(f"the grammar has up to {rule_count} rules; at most {MAX_RULE_COUNT} are allowed")
    check_multiples_in_text(text)
    return grammar_from("grammar", text)


def _lark_with_schemas(text: str) -> str:
    content = _read(text, "grammar")
    lark, schemas = content.get("lark"), content.get("schemas")
    if not isinstance(lark, str) or not isinstance(schemas, dict):
        raise InvalidRequest("the grammar must hold lark, a text, and schemas, an object")
    _lark(lark)
    grammars: list[dict[str, Any]] = [{"name": "main", "lark_grammar": lark}]
    for name, schema in schemas.items():
        if not isinstance(schema, dict):
            raise InvalidRequest(f"the schema {name} must be a JSON object")
        _prepare(schema)
        grammars.append({"name": name, "json_schema": schema | {_OPTIONS_KEYWORD: _JSON_OPTIONS}})
    return json.dumps({"grammars": grammars})


def _choice(text: str) -> str:
    choices = json.loads(text)
    if not isinstance(choices, list) or not choices or not all(isinstance(choice, str) for choice in choices):
        raise InvalidRequest("the choice must be a JSON array of strings")
    return LLMatcher.grammar_from_lark("start: " + " | ".join(json.dumps(choice) for choice in choices))


_WRITERS: Mapping[GrammarKind, Callable[[str], str]] = {
    GrammarKind.JSON_SCHEMA: _json_schema,
    GrammarKind.JSON_OBJECT: _json_object,
    GrammarKind.REGEX: LLMatcher.grammar_from_regex,
    GrammarKind.LARK: _lark,
    GrammarKind.CHOICE: _choice,
    GrammarKind.LARK_WITH_SCHEMAS: _lark_with_schemas,
}
