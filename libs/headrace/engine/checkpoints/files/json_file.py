"""A JSON file of a checkpoint."""

import json
from pathlib import Path
from typing import Any

from headrace.errors.tree import InvalidCheckpoint


def read_json(path: Path) -> dict[str, Any]:
    """Reads one file of a model folder. Raises InvalidCheckpoint if it does not hold a JSON object."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InvalidCheckpoint(f"{path} is missing: a model folder needs it") from error
    except (OSError, ValueError) as error:
        raise InvalidCheckpoint(f"{path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise InvalidCheckpoint(f"{path} does not hold a JSON object")
    return content
