"""Finding by regular expressions of our own: all are bounded in length, so that searching takes linear time."""

import re
from collections.abc import Callable, Iterator

from headrace.gateway.filter.detectors.finding import Finding

Check = Callable[[str], int]
"""Returns the length of the finding at the beginning of what the expression matched; 0: there is none."""


class PatternDetector:
    """Detector of what an expression matches where no word goes on."""

    def __init__(self, name: str, expression: str, *, tails: tuple[str, ...], sign: str, check: Check = len) -> None:
        """`tails`: expressions that match, read backward from the end of a text, what may grow into a finding.
        `sign`: expression of something short that every finding has."""
        self.name = name
        self.tails = tails
        self.sign = sign
        self._expression = re.compile(expression)
        self._check = check

    def find(self, text: str, begin: int = 0) -> Iterator[Finding]:
        at = begin
        while (match := self._expression.search(text, at)) is not None:
            start = match.start()
            length = 0 if _is_inside_word(text, start) else self._check(match.group())
            if length:
                yield Finding(start, start + length, self.name)
            at = start + max(length, 1)


def _is_inside_word(text: str, start: int) -> bool:
    return start > 0 and text[start].isalnum() and text[start - 1].isalnum()
