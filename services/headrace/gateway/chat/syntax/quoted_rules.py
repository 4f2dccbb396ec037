"""Lark rules for objects whose texts stand between quotes of the model's own."""

import json
from collections.abc import Mapping
from typing import Any

from headrace.gateway.chat.syntax.lark_literals import LarkLiterals
from headrace.gateway.chat.syntax.parameter_sequence import parameter_names, sequence_rules

_BARE_TYPES = frozenset({"integer", "number", "boolean", "null"})
"""Types whose values are written as in JSON."""
_ANY_BARE: dict[str, Any] = {"type": ["number", "boolean", "null"]}


class QuotedRules:
    """Writes the rules of one call's arguments. Of texts, only their choices are held to a schema."""

    def __init__(self, rule: str, quote: str, literals: LarkLiterals) -> None:
        """`rule`: name of the rule for all arguments, with which all others begin."""
        self._rule = rule
        self._quote = quote
        self._literals = literals
        self._any = f"{rule}_any"
        self._lines: list[str] = []
        self.schemas: dict[str, dict[str, Any]] = {}
        """JSON schemas that the rules name with `@`."""

    def of_arguments(self, schema: Mapping[str, Any]) -> list[str]:
        """Returns rules that match the arguments which a schema admits, and the brace behind them."""
        self._lines.append(f'{self._rule}: {self._members(self._rule, schema)} "}}"')
        self._add_any()
        return self._lines

    def _members(self, rule: str, schema: Mapping[str, Any]) -> str:
        """Adds a rule for the names and values of an object, and returns its name."""
        names, required_count = parameter_names(schema)
        for index, name in enumerate(names):
            value = self._value(f"{rule}_{index}_value", schema["properties"][name])
            self._lines.append(f"{rule}_{index}: {_literal(name + ':')} {value}")
        self._lines += sequence_rules(rule, len(names), required_count, '","')
        return f"{rule}_head_0"

    def _value(self, rule: str, schema: Any) -> str:
        """Returns an expression for a value, with rules that begin with `rule`."""
        form: Mapping[str, Any] = schema if isinstance(schema, Mapping) else {}
        choices = form.get("enum") or ([form["const"]] if "const" in form else [])
        if choices and all(isinstance(choice, str) for choice in choices):
            quote = self._literals.write(self._quote)
            return f"{quote} ({' | '.join(map(_literal, choices))}) {quote}"
        match form:
            case {"type": "string"}:
                return self._text(rule)
            case {"type": str(kind)} if kind in _BARE_TYPES:
                return self._json(rule, form)
            case {"type": "array", "items": {**items}}:
                item = self._value(f"{rule}_item", items)
                return f'"[" ({item} ("," {item})*)? "]"'
            case {"type": "object", "properties": {**properties}} if properties:
                return f'"{{" {self._members(rule, form)} "}}"'
            case {"anyOf": [_, *_] as forms}:
                return f"({' | '.join(self._value(f'{rule}_{at}', each) for at, each in enumerate(forms))})"
        return self._any

    def _text(self, rule: str) -> str:
        self._lines.append(self._literals.anything_until(f"{rule}_text", self._quote))
        return f"{self._literals.write(self._quote)} {rule}_text"

    def _json(self, rule: str, schema: Mapping[str, Any]) -> str:
        self.schemas[f"{rule}_schema"] = dict(schema)
        return f"@{rule}_schema"

    def _add_any(self) -> None:
        """Adds the rule for values of any form."""
        value, member = self._any, f"{self._any}_member"
        forms = (
            self._text(value),
            self._json(value, _ANY_BARE),
            f'"[" ({value} ("," {value})*)? "]"',
            f'"{{" ({member} ("," {member})*)? "}}"',
        )
        self._lines.append(f"{value}: {' | '.join(forms)}")
        self._lines.append(f'{member}: /[^\\s:,<>{{}}\\[\\]"]+/ ":" {value}')


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
