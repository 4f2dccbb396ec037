"""A setting whose value reports never show."""

import re
from typing import Annotated, Any

from pydantic import Field

MASK = "***"
_MARK: dict[str, Any] = {"writeOnly": True}
_USER_OF_URL = re.compile(r"(?<=://)[^/@\s]+(?=@)")

Secret = Annotated[str, Field(json_schema_extra=_MARK)]
"""Text that reports show as ***. JSON schemas call it write-only."""


def is_secret(extra: object) -> bool:
    """Whether a field with this extra of its JSON schema is a Secret."""
    return isinstance(extra, dict) and bool(extra.get("writeOnly"))


def without_users(value: Any) -> Any:
    """Returns a value with users and passwords in its URLs masked, however deep they stand."""
    if isinstance(value, str):
        return _USER_OF_URL.sub(MASK, value)
    if isinstance(value, list):
        return [without_users(each) for each in value]
    if isinstance(value, dict):
        return {name: without_users(each) for name, each in value.items()}
    return value
