"""Ends a text at the first stop text, even when it came in pieces; shows nothing of one that may yet complete."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StopFound:
    """A stop text was found."""

    stop_text: str


class StopTexts:
    """Feeds text through. What could be the beginning of a stop text is held back until it is decided."""

    def __init__(self, stop_texts: Sequence[str], includes_stop_text: bool) -> None:
        self._stop_texts = tuple(stop_texts)
        self._includes = includes_stop_text
        self._held = ""

    def push(self, text: str) -> tuple[str, StopFound | None]:
        """The text that may be shown, and the stop that ends it."""
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
        """Returns the text that was held back, once no more comes."""
        held, self._held = self._held, ""
        return held

    def _first_match(self) -> tuple[int, str] | None:
        matches = [(self._held.find(stop), stop) for stop in self._stop_texts]
        return min((match for match in matches if match[0] >= 0), default=None)

    def _undecided_length(self) -> int:
        """Length of the longest end of the held text that begins a stop text."""
        longest = max(len(stop) for stop in self._stop_texts) - 1
        for length in range(min(longest, len(self._held)), 0, -1):
            if any(stop.startswith(self._held[-length:]) for stop in self._stop_texts):
                return length
        return 0
