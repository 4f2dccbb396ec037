"""Finding of words and phrases, all in one pass (Aho and Corasick, 1975)."""

from collections.abc import Iterator, Sequence

import ahocorasick

from headrace.gateway.filter.finding import Finding


class WordDetector:
    """Detector of whole words and phrases, in upper or lower case."""

    def __init__(self, name: str, words: Sequence[str]) -> None:
        self.name = name
        self._automaton = ahocorasick.Automaton()
        folded = {_folded(word) for word in words}
        for word in folded:
            self._automaton.add_word(word, len(word))
        self._automaton.make_automaton()
        self._longest = max(map(len, folded))

    def find(self, text: str) -> Iterator[Finding]:
        folded = _folded(text)
        found = [Finding(last + 1 - length, last + 1, self.name) for last, length in self._automaton.iter(folded)]
        yield from sorted(each for each in found if _is_whole(folded, each))

    def undecided(self, text: str) -> int:
        end = _folded(text[-self._longest :])
        return next((len(end) - at for at in range(len(end)) if self._automaton.match(end[at:])), 0)


def _folded(text: str) -> str:
    """Returns the text in lower case, without changing its length as some characters would."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(small if len(small := character.lower()) == 1 else character for character in text)


def _is_whole(text: str, found: Finding) -> bool:
    begins = found.start == 0 or not (text[found.start - 1].isalnum() and text[found.start].isalnum())
    ends = found.end == len(text) or not (text[found.end - 1].isalnum() and text[found.end].isalnum())
    return begins and ends
