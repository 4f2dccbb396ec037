"""Bounds of readers, by which their time grows with the length of an answer alone."""

from collections.abc import Iterator

MAX_PIECE = 4096
"""Longest text, in characters, that a reader takes at once."""
MAX_SPACE = 1024
"""Longest white space, in characters, that is held back because a marker may follow it."""
MAX_HEADER = 1024
"""Longest header of a message, in characters. What is longer is no header."""


def pieces(text: str) -> Iterator[str]:
    """Yields a text in pieces, one at least."""
    yield text[:MAX_PIECE]
    for start in range(MAX_PIECE, len(text), MAX_PIECE):
        yield text[start : start + MAX_PIECE]
