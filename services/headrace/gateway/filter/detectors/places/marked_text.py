"""Text in which a mark stands wherever a word may begin or end, so that whole words can be found without a check."""

import numpy as np

from headrace.gateway.filter.detectors.places.character_codes import Mask, alphanumeric, codes_of

MARK = "\uffff"
"""Stands for nothing in Unicode. Where a text has it all the same, it is a character between two marks."""


class MarkedText:
    """A stretch of a text with its marks."""

    def __init__(self, text: str, begin: int = 0, end: int | None = None) -> None:
        """Marks the text from `begin` to `end`, which the characters around them help to find."""
        end = len(text) if end is None else end
        marks = _marks(text[max(0, begin - 1) : end + 1])[min(begin, 1) :][: end - begin + 1]
        characters = np.frombuffer(text[begin:end].encode("utf-32-le", "surrogatepass"), "<u4")
        self._places = np.arange(len(characters)) + np.cumsum(marks[:-1])
        marked = np.full(len(characters) + np.count_nonzero(marks), ord(MARK), "<u4")
        marked[self._places] = characters
        self.text = marked.tobytes().decode("utf-32-le", "surrogatepass")

    def original(self, marked: int) -> int:
        """Returns where the character that stands at, or next behind, a place with marks stands without them."""
        return int(np.searchsorted(self._places, marked))


def _marks(text: str) -> Mask:
    """Returns for each character, and for the end, whether a mark stands before it: unless it continues a word."""
    inside = alphanumeric(codes_of(text))
    marks = np.ones(len(text) + 1, np.bool_)
    marks[1:-1] = ~(inside[:-1] & inside[1:])
    return marks
