"""Ends a text at the first stop text, even one that arrives in pieces, and shows no part of one that may yet
complete."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StopFound:
    """A stop text was found."""

    stop_text: str


class StopTexts:
    """Passes text through, holding back a possible beginning of a stop text until it is decided."""

    def __init__(self, stop_texts: Sequence[str], includes_stop_text: bool) -> None:
        self._stop_texts = tuple(stop_texts)
        self._includes = includes_stop_text
        self._held = ""

    def push(self, text: str) -> tuple[str, StopFound | None]:
        """Returns the text that may be shown, and the stop that ends it."""
        if not self._stop_texts:
            return text, None
        self._held += text
        found = self._first_match()
        if found is not None:
            start, stop_text = found
            end = start + len(stop_text) if self._includes else start
            shown, self._held = self._held[:end], ""
            return shown, StopFound(stop_text)
        keep = self._undecided_length()
        cut = len(self._held) - keep
        shown, self._held = self._held[:cut], self._held[cut:]
        return shown, None

    def flush(self) -> str:
        """Returns the text that was held back, once no more follows."""
        held, self._held = self._held, ""
        return held

    def _first_match(self) -> tuple[int, str] | None:
        matches = [(self._held.find(stop), stop) for stop in self._stop_texts]
        return min((match for match in matches if match[0] >= 0), default=None)

    def _undecided_length(self) -> int:
        """Returns the length of the longest suffix of the held text that begins a stop text."""
        longest = max(len(stop) for stop in self._stop_texts) - 1
        for length in range(min(longest, len(self._held)), 0, -1):
            if any(stop.startswith(self._held[-length:]) for stop in self._stop_texts):
                return length
        return 0
