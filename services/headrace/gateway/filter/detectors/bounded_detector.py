"""Finding by an operator's own regular expression."""

from collections.abc import Iterator

import re2

from headrace.errors import ConfigError
from headrace.gateway.filter.detectors.finding import Finding


class BoundedDetector:
    """Detector of what an expression matches, as far as a match is no longer than a bound: as much text is held back,
    because any of it may still grow into a match."""

    def __init__(self, name: str, expression: str, longest: int) -> None:
        """`longest`: most characters of a match. Raises ConfigError."""
        self.names = [name]
        self._longest = longest
        try:
            self._expression = re2.compile(expression)
        except re2.error as error:
            raise ConfigError(
                f"the pattern {name} is no regular expression of RE2: {error}", param="filters_file"
            ) from None

    def find(self, text: str, begin: int = 0) -> Iterator[Finding]:
        for match in self._expression.finditer(text, begin):
            if match.end() > match.start():
                yield Finding(match.start(), match.end(), self.names[0])

    def undecided(self, text: str) -> int:
        return min(len(text), self._longest - 1)
