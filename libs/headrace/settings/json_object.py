"""A setting that is a JSON object, or in a file a table."""

import json
from typing import Annotated, Any

from pydantic import BeforeValidator


def _read(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value or "{}")
    except ValueError as error:
        raise ValueError(f'should be a JSON object such as {{"name": 1}}: {error}') from None


JsonObject = Annotated[dict[str, Any], BeforeValidator(_read)]
