"""Finding of one kind of text."""

from collections.abc import Iterator
from typing import Protocol

from headrace.gateway.filter.finding import Finding


class Detector(Protocol):
    """Searches texts that arrive in parts. A finding must not depend on text further before it than one character."""

    name: str

    def find(self, text: str) -> Iterator[Finding]:
        """Yields findings from the left."""

    def undecided(self, text: str) -> int:
        """Returns the length of the end of `text` that may belong to a finding when more text follows."""
