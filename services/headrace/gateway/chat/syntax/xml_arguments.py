"""Arguments as one element for each parameter, as Qwen3-Coder writes them."""

import json
import re
from collections.abc import Mapping
from typing import Any

from headrace.gateway.chat.syntax.argument_reader import ArgumentReader
from headrace.gateway.chat.syntax.argument_syntax import Rules

_END = "</function>"
_CLOSE = "\n</parameter>\n"
_PARAMETER = re.compile(r"<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>", re.DOTALL)


class XmlArguments:
    """ArgumentSyntax in which texts stand as they are, and other values as JSON."""

    def rules(self, rule: str, schema: Mapping[str, Any]) -> Rules:
        lines: list[str] = []
        schemas: dict[str, dict[str, Any]] = {}
        elements: list[str] = []
        required = schema.get("required", [])
        definitions = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
        for index, (name, value) in enumerate(schema.get("properties", {}).items()):
            element = f"{rule}_{index}"
            lines.append(f"{element}: {json.dumps(f'<parameter={name}>' + chr(10))} {element}_value")
            if _is_text(value):
                lines.append(f"{element}_value[suffix={json.dumps(_CLOSE)}]: /(.|\\n)*/")
            elif _texts(value):
                lines.append(f"{element}_value: ({' | '.join(map(json.dumps, _texts(value)))}) {json.dumps(_CLOSE)}")
            else:
                lines.append(f"{element}_value: @{element}_schema {json.dumps(_CLOSE)}")
                schemas[f"{element}_schema"] = {**definitions, **value} if isinstance(value, Mapping) else {}
            elements.append(element if name in required else f"{element}?")
        return [f"{rule}: {' '.join([*elements, json.dumps(_END)])}", *lines], schemas

    def reader(self, schema: Mapping[str, Any]) -> ArgumentReader:
        return _Reader(schema.get("properties", {}))


class _Reader:
    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._properties = properties
        self._held = ""

    def push(self, text: str) -> tuple[str, str | None]:
        self._held += text
        end = self._held.find(_END)
        if end < 0:
            return "", None
        written, rest = self._held[:end], self._held[end + len(_END) :]
        self._held = ""
        return self._as_json(written), rest

    def flush(self) -> str:
        return self._as_json(self._held)

    def _as_json(self, written: str) -> str:
        found = {name: self._value(name, text) for name, text in _PARAMETER.findall(written)}
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
