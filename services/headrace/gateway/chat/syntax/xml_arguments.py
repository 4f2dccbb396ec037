"""Arguments as elements for each parameter, as Qwen3-Coder, GLM-4.5, MiniMax M2 and Seed-OSS write them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.gateway.chat.syntax.argument_reader import ArgumentReader
from headrace.gateway.chat.syntax.argument_syntax import Rules
from headrace.gateway.chat.syntax.held_text import HeldText
from headrace.gateway.chat.syntax.lark_literals import LarkLiterals


@dataclass(frozen=True, slots=True)
class XmlArguments:
    """ArgumentSyntax in which texts stand as they are, and other values as JSON."""

    before_name: str
    before_value: str
    after_value: str
    end: str
    """Text behind the last parameter."""

    @property
    def literals(self) -> tuple[str, ...]:
        return self.before_name, self.before_value, self.after_value, self.end

    def rules(self, rule: str, schema: Mapping[str, Any], literals: LarkLiterals) -> Rules:
        lines: list[str] = []
        schemas: dict[str, dict[str, Any]] = {}
        elements: list[str] = []
        required = schema.get("required", [])
        definitions = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
        close = literals.write(self.after_value)
        for index, (name, value) in enumerate(schema.get("properties", {}).items()):
            element = f"{rule}_{index}"
            opening = literals.write(self.before_name + name + self.before_value)
            lines.append(f"{element}: {opening} {element}_value")
            if _is_text(value):
                lines.append(literals.anything_until(f"{element}_value", self.after_value))
            elif _texts(value):
                lines.append(f"{element}_value: ({' | '.join(map(json.dumps, _texts(value)))}) {close}")
            else:
                lines.append(f"{element}_value: @{element}_schema {close}")
                schemas[f"{element}_schema"] = {**definitions, **value} if isinstance(value, Mapping) else {}
            elements.append(element if name in required else f"{element}?")
        return [f"{rule}: {' '.join([*elements, literals.write(self.end)])}", *lines], schemas

    def reader(self, schema: Mapping[str, Any]) -> ArgumentReader:
        return _Reader(self, schema.get("properties", {}))


QWEN = XmlArguments("<parameter=", ">\n", "\n</parameter>\n", "</function>")
GLM = XmlArguments("<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n", "</tool_call>")
MINIMAX = XmlArguments('<parameter name="', '">', "</parameter>\n", "</invoke>")
SEED = XmlArguments("<parameter=", ">", "</parameter>\n", "</function>")
MAX_NAME = 256
"""Longest name of a parameter that is looked for, in characters."""


class _Reader:
    def __init__(self, syntax: XmlArguments, properties: Mapping[str, Any]) -> None:
        self._syntax = syntax
        self._properties = properties
        self._held = HeldText()
        self._tail = ""
        """Last characters, in which the end may begin."""

    def push(self, text: str) -> tuple[str, str | None]:
        window = self._tail + text
        at = window.find(self._syntax.end)
        self._held.add(text)
        if at < 0:
            self._tail = window[1 - len(self._syntax.end) :]
            return "", None
        whole, rest = self._held.take(), window[at + len(self._syntax.end) :]
        self._tail = ""
        return self._as_json(whole[: len(whole) - (len(window) - at)]), rest

    def flush(self) -> str:
        return self._as_json(self._held.take())

    def _as_json(self, written: str) -> str:
        found = {name: self._value(name, text) for name, text in _parameters(self._syntax, written)}
        return json.dumps(found, ensure_ascii=False)

    def _value(self, name: str, text: str) -> Any:
        schema = self._properties.get(name, {})
        if _is_text(schema) or _texts(schema):
            return text
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text


def _parameters(syntax: XmlArguments, written: str) -> Iterator[tuple[str, str]]:
    """Yields names and values. White space that models leave out or add around marks does not matter. Takes time in
    proportion to the text, whatever it is."""
    first_mark, *later_marks = syntax.before_value.split()
    close, at = syntax.after_value.strip(), 0
    while (start := written.find(syntax.before_name, at)) >= 0:
        at = start + len(syntax.before_name)
        name_end = written.find(first_mark, at, at + MAX_NAME)
        if name_end < 0:
            continue
        name = written[at:name_end].strip()
        value_start = name_end + len(first_mark)
        for mark in later_marks:
            value_start = _behind(written, value_start, mark)
        if value_start < 0 or not name or "\n" in name:
            continue
        end = written.find(close, value_start)
        if end < 0:
            return
        value, at = written[value_start:end], end + len(close)
        has_lines = syntax.before_value.endswith("\n")
        yield name, value.removeprefix("\n").removesuffix("\n") if has_lines else value


def _behind(text: str, at: int, mark: str) -> int:
    """Returns the place behind a mark that stands at a place, or behind white space there. -1: it does not."""
    while text[at : at + 1].isspace():
        at += 1
    return at + len(mark) if text.startswith(mark, at) else -1


def _is_text(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "string" and "enum" not in schema


def _texts(schema: Any) -> list[str]:
    """Returns the texts of which a parameter is one, if it is."""
    values = schema.get("enum", []) if isinstance(schema, Mapping) else []
    return values if values and all(isinstance(value, str) for value in values) else []
