"""Arguments as a JSON object."""

from collections.abc import Mapping
from typing import Any, ClassVar

from headrace.gateway.chat.syntax.argument_reader import ArgumentReader
from headrace.gateway.chat.syntax.argument_syntax import Rules
from headrace.gateway.chat.syntax.lark_literals import LarkLiterals


class JsonArguments:
    """ArgumentSyntax of most models. The text is passed on as the model writes it."""

    literals: ClassVar[tuple[str, ...]] = ()

    def rules(self, rule: str, schema: Mapping[str, Any], literals: LarkLiterals) -> Rules:
        return [f"{rule}: @{rule}_schema"], {f"{rule}_schema": dict(schema)}

    def reader(self, schema: Mapping[str, Any]) -> ArgumentReader:
        return _Reader()


class _Reader:
    """Counts brackets outside strings to find the end of the object."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._is_escaped = False

    def push(self, text: str) -> tuple[str, str | None]:
        for index, character in enumerate(text):
            if self._in_string:
                self._follow_string(character)
            elif character == '"':
                self._in_string = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                if self._depth <= 0:
                    return text[: index + 1], text[index + 1 :]
        return text, None

    def flush(self) -> str:
        return ""

    def _follow_string(self, character: str) -> None:
        if self._is_escaped:
            self._is_escaped = False
        elif character == "\\":
            self._is_escaped = True
        elif character == '"':
            self._in_string = False
