"""Arguments as elements for each parameter, as Qwen3-Coder and GLM-4.5 write them."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.gateway.chat.syntax.argument_reader import ArgumentReader
from headrace.gateway.chat.syntax.argument_syntax import Rules
from headrace.gateway.chat.syntax.lark_literals import LarkLiterals


@dataclass(frozen=True, slots=True)
class XmlArguments:
    """ArgumentSyntax in which texts stand as they are, and other values as JSON."""

    before_name: str
    before_value: str
    after_value: str
    end: str
    """Text behind the last parameter."""
    parameter: re.Pattern[str]
    """Pattern of a parameter, with groups of the name and of the value. White space that models leave out or add does
    not matter."""

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


QWEN = XmlArguments(
    "<parameter=",
    ">\n",
    "\n</parameter>\n",
    "</function>",
    re.compile(r"<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>", re.DOTALL),
)
GLM = XmlArguments(
    "<arg_key>",
    "</arg_key>\n<arg_value>",
    "</arg_value>\n",
    "</tool_call>",
    re.compile(r"<arg_key>\s*([^<]+?)\s*</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL),
)


class _Reader:
    def __init__(self, syntax: XmlArguments, properties: Mapping[str, Any]) -> None:
        self._syntax = syntax
        self._properties = properties
        self._held = ""

    def push(self, text: str) -> tuple[str, str | None]:
        self._held += text
        end = self._held.find(self._syntax.end)
        if end < 0:
            return "", None
        written, rest = self._held[:end], self._held[end + len(self._syntax.end) :]
        self._held = ""
        return self._as_json(written), rest

    def flush(self) -> str:
        return self._as_json(self._held)

    def _as_json(self, written: str) -> str:
        found = {name: self._value(name, text) for name, text in self._syntax.parameter.findall(written)}
        return json.dumps(found, ensure_ascii=False)

    def _value(self, name: str, text: str) -> Any:
        schema = self._properties.get(name, {})
        if _is_text(schema) or _texts(schema):
            return text
        try:
            return json.loads(text)
        except ValueError:
            return text


def _is_text(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "string" and "enum" not in schema


def _texts(schema: Any) -> list[str]:
    """Returns the texts of which a parameter is one, if it is."""
    values = schema.get("enum", []) if isinstance(schema, Mapping) else []
    return values if values and all(isinstance(value, str) for value in values) else []
