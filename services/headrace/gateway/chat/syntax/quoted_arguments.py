"""Arguments as an object whose texts stand between quotes of the model's own, as Gemma 4 writes them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.gateway.chat.syntax.argument_reader import ArgumentReader
from headrace.gateway.chat.syntax.argument_syntax import Rules
from headrace.gateway.chat.syntax.held_text import HeldText
from headrace.gateway.chat.syntax.lark_literals import LarkLiterals
from headrace.gateway.chat.syntax.quoted_object import QuotedObject
from headrace.gateway.chat.syntax.quoted_rules import QuotedRules


@dataclass(frozen=True, slots=True)
class QuotedArguments:
    """ArgumentSyntax that ends with a brace. Names stand bare, texts unescaped between quotes, all else as in JSON."""

    quote: str

    @property
    def literals(self) -> tuple[str, ...]:
        return (self.quote,)

    def rules(self, rule: str, schema: Mapping[str, Any], literals: LarkLiterals) -> Rules:
        written = QuotedRules(rule, self.quote, literals)
        return written.of_arguments(schema), written.schemas

    def reader(self, schema: Mapping[str, Any]) -> ArgumentReader:
        return _Reader(self.quote)


class _Reader:
    """Waits for the brace that ends the call."""

    def __init__(self, quote: str) -> None:
        self._quote = quote
        self._held = HeldText()
        self._tail = ""
        """Last characters, in which a quote may begin."""
        self._depth = 1
        self._in_text = False

    def push(self, text: str) -> tuple[str, str | None]:
        window, at = self._tail + text, 0
        while at < len(window):
            if window.startswith(self._quote, at):
                self._in_text = not self._in_text
                at += len(self._quote)
            elif len(window) - at < len(self._quote) and self._quote.startswith(window[at:]):
                break
            else:
                self._depth += 0 if self._in_text else _steps(window[at])
                at += 1
            if not self._depth:
                self._held.add(window[: at - 1])
                self._tail = ""
                return self._as_json(self._held.take()), window[at:]
        self._held.add(window[:at])
        self._tail = window[at:]
        return "", None

    def flush(self) -> str:
        return self._as_json(self._held.take() + self._tail)

    def _as_json(self, written: str) -> str:
        """Converts arguments to a JSON object. What has no such form stays text."""
        try:
            found: Any = QuotedObject(written, self._quote).read()
        except (ValueError, RecursionError):
            found = {"arguments": written}
        return json.dumps(found, ensure_ascii=False)


def _steps(character: str) -> int:
    """Returns how many levels deeper a character leads."""
    return (character in "{[") - (character in "}]")
