"""Mistake in a field, found by one of our own checks."""

from pydantic_core import PydanticCustomError

MISTAKE = "mistake"
"""Type of the errors whose text continues the name of the field."""


def mistake(text: str) -> PydanticCustomError:
    """Returns an error that says `text` about its field."""
    return PydanticCustomError(MISTAKE, "{text}", {"text": text})
