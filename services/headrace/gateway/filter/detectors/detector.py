"""Finding of one kind of text."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from headrace.gateway.filter.detectors.finding import Finding


class Detector(Protocol):
    """Searches texts that arrive in parts. A finding must not depend on text further before it than one character."""

    @property
    def names(self) -> Sequence[str]:
        """Returns the names of what it finds."""

    def find(self, text: str, begin: int = 0) -> Iterable[Finding]:
        """Returns findings from the left, as if none could begin before `begin`."""

    def undecided(self, text: str) -> int:
        """Returns the length of the end of `text` that may belong to a finding when more text follows."""
