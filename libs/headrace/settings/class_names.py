"""A setting that names classes of requests."""

from typing import Annotated, Literal

from pydantic import BeforeValidator

ClassName = Literal["realtime", "interactive", "default", "batch"]


def _split(value: object) -> object:
    """Splits `interactive,realtime`, or the same with spaces, into a tuple."""
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value


ClassNames = Annotated[tuple[ClassName, ...], BeforeValidator(_split)]
"""Written as names, separated by commas or spaces. May be empty."""
