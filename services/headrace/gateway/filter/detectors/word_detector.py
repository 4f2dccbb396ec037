"""Finding of words and phrases, all in one pass (Aho and Corasick, 1975)."""

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import ahocorasick

from headrace.gateway.filter.detectors.finding import Finding
from headrace.gateway.filter.detectors.pattern_detector import SHORT_LENGTH


class WordDetector:
    """Detector of whole words and phrases, in upper or lower case."""

    def __init__(self, name: str, words: Sequence[str]) -> None:
        self.names = [name]
        self._folded = {_folded(word) for word in words}
        self._automaton = _automaton(self._folded)
        self._longest = max(map(len, self._folded))
        first = "".join(sorted({re.escape(word[0]) for word in self._folded}))
        self._begins = re.compile(f"[{first}]")

    def find(self, text: str, begin: int = 0) -> Iterable[Finding]:
        folded = _folded(text)
        if len(text) - begin > SHORT_LENGTH:
            return self._find_long(folded, begin)
        found = [Finding(last + 1 - length, last + 1, self.names[0]) for last, length in self._automaton.iter(folded)]
        return sorted(each for each in found if each.start >= begin and _is_whole(folded, each)) if found else ()

    def undecided(self, text: str) -> int:
        end = _folded(text[-self._longest :])
        for match in self._begins.finditer(end):
            at = match.start()
            if self._automaton.match(end[at:]) and not _is_inside_word(end, at):
                return len(end) - at
        return 0

    def _find_long(self, folded: str, begin: int) -> Iterator[Finding]:
        """Finds whole words only: a text can be made of parts of words, and checking each takes long."""
        from headrace.gateway.filter.detectors.places.likely_places import SLICE
        from headrace.gateway.filter.detectors.places.marked_text import MarkedText

        for start in range(begin, len(folded), SLICE):
            marked = MarkedText(folded, start, min(len(folded), start + SLICE + self._longest))
            for last, length in self._marked_automaton.iter(marked.text):
                at, end = start + marked.original(last + 1 - length), start + marked.original(last)
                if at < start + SLICE:
                    yield Finding(at, end, self.names[0])

    @functools.cached_property
    def _marked_automaton(self) -> Any:
        from headrace.gateway.filter.detectors.places.marked_text import MarkedText

        return _automaton({MarkedText(word).text for word in self._folded})


def _automaton(words: set[str]) -> Any:
    automaton = ahocorasick.Automaton()
    for word in words:
        automaton.add_word(word, len(word))
    automaton.make_automaton()
    return automaton


def _folded(text: str) -> str:
    """Returns the text in lower case, without changing its length: İ alone becomes two characters otherwise."""
    return text.replace("İ", "i").lower()


def _is_whole(text: str, found: Finding) -> bool:
    return not _is_inside_word(text, found.start) and not _is_inside_word(text, found.end)


def _is_inside_word(text: str, at: int) -> bool:
    return 0 < at < len(text) and text[at - 1].isalnum() and text[at].isalnum()
