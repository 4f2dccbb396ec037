"""Values of fields that do not work: whether they ask for anything."""

from collections.abc import Callable
from typing import Any

Neutral = Callable[[Any], bool]
"""Whether a value of a field that does not work asks for nothing."""


def never(_value: Any) -> bool:
    """Neutral of a field every value of which asks for something."""
    return False


def is_value(*neutral: Any) -> Neutral:
    """Returns the Neutral of a field of which these values ask for nothing."""
    return lambda value: value in neutral


def asks_for_something(value: Any, neutral: Neutral) -> bool:
    """Whether a value of a field that does not work asks for anything: none, and an empty one, never does."""
    is_empty = value is None or (isinstance(value, str | list | dict) and not value)
    return not is_empty and not neutral(value)
