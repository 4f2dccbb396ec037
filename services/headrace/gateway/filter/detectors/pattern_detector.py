"""Finding by our own regular expressions: all are bounded in length, so that searching takes linear time."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from headrace.gateway.filter.detectors.finding import Finding

if TYPE_CHECKING:
    from headrace.gateway.filter.detectors.places.likely_places import FindPlaces

Check = Callable[[str], int]
"""Returns the length of the finding at the beginning of what the expression matched; 0: there is none."""
SHORT_LENGTH = 4096
"""Characters up to which the expression searches alone. In longer texts it is tried where a finding is likely: texts
can be made in which it matches everywhere and every check fails."""


class PatternDetector:
    """Detector of matches of an expression that do not begin inside a word."""

    def __init__(
        self,
        name: str,
        expression: str,
        *,
        tails: tuple[str, ...],
        sign: str,
        load_places: "Callable[[], FindPlaces]",
        check: Check = len,
    ) -> None:
        """`tails`: expressions that match, read backward from the end of a text, what may grow into a finding.
        `sign`: expression of something short that every finding has. `load_places`: imports the search of long texts,
        which returns all places of findings, and few others."""
        self.name = name
        self.tails = tails
        self.sign = sign
        self._expression = re.compile(expression)
        self._load_places = load_places
        self._check = check

    def find(self, text: str, begin: int = 0) -> Iterator[Finding]:
        return self._find_long(text, begin) if len(text) - begin > SHORT_LENGTH else self._find_short(text, begin)

    def _find_short(self, text: str, begin: int) -> Iterator[Finding]:
        at = begin
        while (match := self._expression.search(text, at)) is not None:
            at = match.start()
            if length := self._length(text, match):
                yield Finding(at, at + length, self.name)
            at += max(length, 1)

    def _find_long(self, text: str, begin: int) -> Iterator[Finding]:
        # Imported here because few gateways ever search a long text.
        from headrace.gateway.filter.detectors.places.likely_places import likely_places

        at = begin
        for places in likely_places(text, begin, self._load_places()):
            while (index := bisect_left(places, at)) < len(places):
                at = places[index]
                match = self._expression.match(text, at)
                length = 0 if match is None else self._length(text, match)
                if length:
                    yield Finding(at, at + length, self.name)
                at += max(length, 1)

    def _length(self, text: str, match: re.Match[str]) -> int:
        return 0 if _is_inside_word(text, match.start()) else self._check(match.group())


def _is_inside_word(text: str, start: int) -> bool:
    return start > 0 and text[start].isalnum() and text[start - 1].isalnum()
