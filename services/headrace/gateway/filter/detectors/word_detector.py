"""Finding of words and phrases, all in one pass (Aho and Corasick, 1975)."""

import re
from collections.abc import Iterable, Sequence

import ahocorasick

from headrace.gateway.filter.detectors.finding import Finding


class WordDetector:
    """Detector of whole words and phrases, in upper or lower case."""

    def __init__(self, name: str, words: Sequence[str]) -> None:
        self.names = [name]
        self._automaton = ahocorasick.Automaton()
        folded = {_folded(word) for word in words}
        for word in folded:
            self._automaton.add_word(word, len(word))
        self._automaton.make_automaton()
        self._longest = max(map(len, folded))
        first = "".join(sorted({re.escape(word[0]) for word in folded}))
        self._begins = re.compile(f"[{first}]")

    def find(self, text: str, begin: int = 0) -> Iterable[Finding]:
        folded = _folded(text)
        found = [Finding(last + 1 - length, last + 1, self.names[0]) for last, length in self._automaton.iter(folded)]
        return sorted(each for each in found if each.start >= begin and _is_whole(folded, each)) if found else ()

    def undecided(self, text: str) -> int:
        end = _folded(text[-self._longest :])
        for match in self._begins.finditer(end):
            at = match.start()
            if self._automaton.match(end[at:]) and not _is_inside_word(end, at):
                return len(end) - at
        return 0


def _folded(text: str) -> str:
    """Returns the text in lower case, without changing its length as some characters would."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(small if len(small := character.lower()) == 1 else character for character in text)


def _is_whole(text: str, found: Finding) -> bool:
    return not _is_inside_word(text, found.start) and not _is_inside_word(text, found.end)


def _is_inside_word(text: str, at: int) -> bool:
    return 0 < at < len(text) and text[at - 1].isalnum() and text[at].isalnum()
