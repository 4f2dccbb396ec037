"""A place in a text that a filter acts on."""

from typing import NamedTuple


class Finding(NamedTuple):
    """A stretch of text, and the name of what found it."""

    start: int
    end: int
    name: str
