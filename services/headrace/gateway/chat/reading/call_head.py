"""Head of a call: the name of its function and, in some syntaxes, its number, up to where its arguments begin."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from headrace.gateway.chat.syntax.call_syntax import CallSyntax

MAX_DIGITS = 6
"""Longest number of a call. What is longer is no number."""


@dataclass(frozen=True, slots=True)
class CallHead:
    """A head that was read."""

    name: str
    number: int | None
    length: int
    """Characters of it."""


class CallHeads:
    """Recognizes the heads of calls of some functions."""

    def __init__(self, syntax: CallSyntax, names: Iterable[str]) -> None:
        self._syntax = syntax
        self._names = tuple(names)
        written = "|".join(map(re.escape, self._names))
        number = f"{re.escape(syntax.before_number)}([0-9]{{1,{MAX_DIGITS}}})" if syntax.before_number else "()"
        self._whole = re.compile(f"({written}){number}{re.escape(syntax.before_arguments)}")

    def read(self, text: str) -> CallHead | None:
        """Returns the head that a text begins with, if it does."""
        found = self._whole.match(text)
        if found is None:
            return None
        return CallHead(found[1], int(found[2]) if found[2] else None, found.end())

    def may_follow(self, text: str) -> bool:
        """Whether a text without a head is the beginning of one."""
        return any(self._begins(text, name) for name in self._names)

    def _begins(self, text: str, name: str) -> bool:
        named = name + (self._syntax.before_number or self._syntax.before_arguments)
        if named.startswith(text):
            return True
        if not self._syntax.before_number or not text.startswith(named):
            return False
        rest = text[len(named) :]
        after = rest.lstrip("0123456789")
        digit_count = len(rest) - len(after)
        if digit_count > MAX_DIGITS or (after and not digit_count):
            return False
        return self._syntax.before_arguments.startswith(after)
