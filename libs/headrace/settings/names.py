"""A setting that lists names."""

from typing import Annotated

from pydantic import BeforeValidator


def _split(value: object) -> object:
    """Splits `name,name` into a tuple."""
    if not isinstance(value, str):
        return value
    return tuple(item.strip() for item in value.split(",") if item.strip())


Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""Written as NAME, several separated by commas. May be empty."""
