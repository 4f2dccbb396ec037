"""Finding by regular expressions of our own: all are bounded in length, so that searching takes linear time."""

import re
from collections.abc import Callable, Iterator

from headrace.gateway.filter.finding import Finding

Check = Callable[[str], int]
"""Returns the length of the finding at the beginning of what the expression matched; 0: there is none."""
LONGEST_TAIL = 640


class PatternDetector:
    """Detector of what an expression matches where no word goes on."""

    def __init__(self, name: str, expression: str, *, tails: tuple[str, ...], signs: str, check: Check = len) -> None:
        """`tails`: expressions that match, read backward from the end of a text, what may grow into a finding.
        `signs`: characters of which every finding has one, to be quick where there is none."""
        self.name = name
        self._expression = re.compile(expression)
        self._tails = [re.compile(tail) for tail in tails]
        self._has_sign = re.compile(f"[{re.escape(signs)}]").search
        self._check = check

    def find(self, text: str) -> Iterator[Finding]:
        at = 0 if self._has_sign(text) else len(text)
        while (match := self._expression.search(text, at)) is not None:
            start = match.start()
            length = 0 if _is_inside_word(text, start) else self._check(match.group())
            if length:
                yield Finding(start, start + length, self.name)
            at = start + max(length, 1)

    def undecided(self, text: str) -> int:
        backward = text[: -LONGEST_TAIL - 1 : -1]
        return max(match.end() if (match := tail.match(backward)) else 0 for tail in self._tails)


def _is_inside_word(text: str, start: int) -> bool:
    return start > 0 and text[start].isalnum() and text[start - 1].isalnum()
