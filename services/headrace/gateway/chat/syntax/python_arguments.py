"""Arguments as keyword arguments of a Python call, as Llama 4 writes them."""

import ast
import json
from collections.abc import Mapping
from typing import Any, ClassVar

from headrace.gateway.chat.syntax.argument_reader import ArgumentReader
from headrace.gateway.chat.syntax.argument_syntax import Rules
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
    """Waits for the parenthesis that ends the call."""

    def __init__(self) -> None:
        self._held = ""

    def push(self, text: str) -> tuple[str, str | None]:
        self._held += text
        end = _end_of_call(self._held)
        if end is None:
            return "", None
        written, rest = self._held[:end], self._held[end + 1 :]
        self._held = ""
        return _as_json(written), rest

    def flush(self) -> str:
        return ""


def _end_of_call(text: str) -> int | None:
    depth, quote, is_escaped = 1, "", False
    for index, character in enumerate(text):
        if quote:
            if is_escaped:
                is_escaped = False
            elif character == "\\":
                is_escaped = True
            elif character == quote:
                quote = ""
        elif character in "\"'":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
            if not depth:
                return index
    return None


def _as_json(arguments: str) -> str:
    """Converts keyword arguments to a JSON object. Anything but a literal stays text."""
    try:
        call = ast.parse(f"f({arguments})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return json.dumps({"arguments": arguments}, ensure_ascii=False)
    keywords = call.keywords if isinstance(call, ast.Call) else []
    found = {keyword.arg or "": _value(keyword.value) for keyword in keywords}
    return json.dumps(found, ensure_ascii=False)


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
