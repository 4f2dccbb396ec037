"""A JSON file of a folder that may be missing."""

import json
from pathlib import Path
from typing import Any

from headrace.errors.tree import InvalidCheckpoint


def read_object(path: Path) -> dict[str, Any]:
    """Reads a JSON object; an empty one where there is no file, or where it holds something else. Raises
    InvalidCheckpoint."""
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidCheckpoint(f"{path} is not JSON: {error}") from None
    return content if isinstance(content, dict) else {}
