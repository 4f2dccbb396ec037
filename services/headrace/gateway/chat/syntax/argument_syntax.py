"""Ways to write the arguments of a call."""

from collections.abc import Mapping
from typing import Any, Protocol

from headrace.gateway.chat.syntax.argument_reader import ArgumentReader
from headrace.gateway.chat.syntax.lark_literals import LarkLiterals

Rules = tuple[list[str], dict[str, dict[str, Any]]]
"""Lark rules, and the JSON schemas that they name with `@`."""


class ArgumentSyntax(Protocol):
    """Writes rules for arguments, and reads what follows them."""

    @property
    def literals(self) -> tuple[str, ...]:
        """Texts around names and values, in which special tokens may stand."""

    def rules(self, rule: str, schema: Mapping[str, Any], literals: LarkLiterals) -> Rules:
        """Returns rules of which `rule` matches the arguments that a schema admits. `literals` writes the texts around
        them."""

    def reader(self, schema: Mapping[str, Any]) -> ArgumentReader: ...
