"""A setting that names several addresses."""

from typing import Annotated

from pydantic import BeforeValidator, Field


def _split(value: object) -> object:
    """Splits `host:port,host:port` into a tuple."""
    if not isinstance(value, str):
        return value
    return tuple(item.strip() for item in value.split(",") if item.strip())


Addresses = Annotated[tuple[str, ...], BeforeValidator(_split), Field(min_length=1)]
"""Written as HOST:PORT, several separated by commas. At least one."""
