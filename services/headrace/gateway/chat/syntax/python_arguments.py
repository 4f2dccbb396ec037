"""Arguments as keyword arguments of a Python call, as Llama 4 and LFM2 write them."""

import ast
import json
from collections.abc import Mapping
from typing import Any, ClassVar

from headrace.gateway.chat.syntax.argument_reader import ArgumentReader
from headrace.gateway.chat.syntax.argument_syntax import Rules
from headrace.gateway.chat.syntax.held_text import HeldText
from headrace.gateway.chat.syntax.lark_literals import LarkLiterals
from headrace.gateway.chat.syntax.parameter_sequence import parameter_names, sequence_rules

_CONSTANTS = {"true": True, "false": False, "null": None}


class PythonArguments:
    """ArgumentSyntax that ends with a parenthesis. Parameters come in the order of the schema, required ones first."""

    literals: ClassVar[tuple[str, ...]] = ()

    def rules(self, rule: str, schema: Mapping[str, Any], literals: LarkLiterals) -> Rules:
        properties: Mapping[str, Any] = schema.get("properties", {})
        names, required_count = parameter_names(schema)
        definitions = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
        lines: list[str] = []
        schemas: dict[str, dict[str, Any]] = {}
        for index, name in enumerate(names):
            value = properties[name]
            is_flag = isinstance(value, Mapping) and value.get("type") == "boolean"
            written = '("True" | "False")' if is_flag else f"@{rule}_{index}_schema"
            lines.append(f"{rule}_{index}: {json.dumps(name + '=')} {written}")
            if not is_flag:
                schemas[f"{rule}_{index}_schema"] = {**definitions, **value} if isinstance(value, Mapping) else {}
        return [
            f'{rule}: {rule}_head_0 ")"',
            *sequence_rules(rule, len(names), required_count, '", "'),
            *lines,
        ], schemas

    def reader(self, schema: Mapping[str, Any]) -> ArgumentReader:
        return _Reader()


class _Reader:
    """Waits for the parenthesis that ends the call, outside of texts."""

    def __init__(self) -> None:
        self._held = HeldText()
        self._depth = 1
        self._quote = ""
        self._is_escaped = False

    def push(self, text: str) -> tuple[str, str | None]:
        for index, character in enumerate(text):
            self._follow(character)
            if not self._depth:
                self._held.add(text[:index])
                return _as_json(self._held.take()), text[index + 1 :]
        self._held.add(text)
        return "", None

    def flush(self) -> str:
        return ""

    def _follow(self, character: str) -> None:
        if self._quote:
            if self._is_escaped:
                self._is_escaped = False
            elif character == "\\":
                self._is_escaped = True
            elif character == self._quote:
                self._quote = ""
        elif character in "\"'":
            self._quote = character
        else:
            self._depth += (character in "([{") - (character in ")]}")


def _as_json(arguments: str) -> str:
    """Converts keyword arguments to a JSON object. Anything but a literal stays text."""
    try:
        call = ast.parse(f"f({arguments})", mode="eval").body
        keywords = call.keywords if isinstance(call, ast.Call) else []
        found = {keyword.arg or "": _value(keyword.value) for keyword in keywords}
        return json.dumps(found, ensure_ascii=False)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        # Deep nesting overflows the parser's stack, which it reports as want of memory; bytes have no JSON.
        return json.dumps({"arguments": arguments}, ensure_ascii=False)


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value):
            return value
        case ast.Name(name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
            return -value
        case ast.List(elements) | ast.Tuple(elements):
            return [_value(element) for element in elements]
        case ast.Dict(keys, values):
            return {str(_value(key)): _value(value) for key, value in zip(keys, values, strict=True) if key}
    return ast.unparse(node)
