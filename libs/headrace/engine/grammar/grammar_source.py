"""Translates a grammar into what llguidance reads. Refuses what could not be followed, or would crash the reader."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from llguidance import LLMatcher, grammar_from

from headrace.engine.contract.grammar import Grammar, GrammarKind
from headrace.engine.grammar.multiples import check_multiples, check_multiples_in_text
from headrace.errors.tree import InvalidRequest, Unsupported

MAX_RULE_COUNT = 1000
"""Most rules of a Lark grammar. llguidance 1.9.1 recurses through chains of rules and overflows the stack at some
8000."""
MAX_EXPLANATION_LENGTH = 300

_JSON_OPTIONS: Mapping[str, Any] = {
    # Between two values at most one space: models like to write it, and none can go on with whitespace for ever.
    "item_separator": ", ?",
    "key_separator": ": ?",
    "whitespace_flexible": False,
    "coerce_one_of": False,
    "lenient": False,
}
_UNKNOWN_KEYWORDS = re.compile(r"^Unimplemented keys: \[(.*)\]")
_LINE_OF_REGEX_ERROR = re.compile(r"^error: (.*)$", re.MULTILINE)
_PLACE = re.compile(r"^at \d+\(\d+\): |^\d+\(\d+\): ")


def write_source(grammar: Grammar) -> str:
    """Writes the grammar in llguidance's own form. Raises InvalidRequest."""
    try:
        return _WRITERS[grammar.kind](grammar.text)
    except InvalidRequest as error:
        raise type(error)(error.message, param=grammar.param) from None
    except ValueError as error:
        raise refusal(grammar, str(error)) from None


def refusal(grammar: Grammar, explanation: str) -> InvalidRequest:
    """The error for a grammar that llguidance does not take. Names the keywords where it is for lack of them."""
    name = "grammar" if grammar.kind is GrammarKind.LARK else grammar.kind.value
    if keywords := _UNKNOWN_KEYWORDS.search(explanation):
        return Unsupported(f"the {name} uses {keywords[1]}, which is not supported", param=grammar.param)
    if line := _LINE_OF_REGEX_ERROR.search(explanation):
        return InvalidRequest(f"the {name} cannot be used: {line[1]}", param=grammar.param)
    first = _PLACE.sub("", explanation).partition("\n")[0][:MAX_EXPLANATION_LENGTH]
    return InvalidRequest(f"the {name} cannot be used: {first}", param=grammar.param)


def _json_schema(text: str) -> str:
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"the json_schema is not valid JSON: {error}") from None
    if not isinstance(schema, dict):
        raise InvalidRequest("the json_schema must be a JSON object")
    if "x-guidance" in schema:
        raise Unsupported('the json_schema uses "x-guidance", which is not supported')
    check_multiples(schema)
    return LLMatcher.grammar_from_json_schema(schema, overrides=_JSON_OPTIONS)  # type: ignore[arg-type]


def _json_object(_text: str) -> str:
    return _json_schema('{"type": "object"}')


def _lark(text: str) -> str:
    rule_count = len(re.findall(":+", text))
    if rule_count > MAX_RULE_COUNT:
        raise InvalidRequest(f"the grammar has up to {rule_count} rules; at most {MAX_RULE_COUNT} are allowed")
    check_multiples_in_text(text)
    return grammar_from("grammar", text)


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
}
