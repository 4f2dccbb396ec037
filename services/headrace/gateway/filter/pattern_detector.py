"""Finding by regular expressions, in time linear in the text (RE2, Cox, 2010)."""

from collections.abc import Callable, Iterator

import re2

from headrace.gateway.filter.finding import Finding

Check = Callable[[str], int]
"""Returns the length of the finding at the beginning of what the expression matched; 0: there is none."""


class PatternDetector:
    """Detector of what an expression matches."""

    def __init__(self, name: str, expression: str, *, tail: str, check: Check = len) -> None:
        """`tail`: expression of the ends of text that may grow into a match."""
        self.name = name
        self._expression = re2.compile(expression)
        self._tail = re2.compile(f"(?:{tail})$")
        self._check = check

    def find(self, text: str) -> Iterator[Finding]:
        at = 0
        while (match := self._expression.search(text, at)) is not None:
            length = self._check(match.group())
            if length:
                yield Finding(match.start(), match.start() + length, self.name)
            at = max(match.start() + length, match.start() + 1)

    def undecided(self, text: str) -> int:
        match = self._tail.search(text)
        return 0 if match is None else len(text) - match.start()
