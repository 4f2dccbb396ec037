"""The `minProperties` of a JSON schema, which counts keys that an output may repeat.

A grammar cannot remember keys that it does not list: `{"a": 1, "a": 2}` has two of them written and one when read.
"""

from typing import Any

from headrace.errors.tree import Unsupported

_KEYWORD = "minProperties"


def check_key_counts(schema: Any) -> None:
    """Raises Unsupported for a schema, as Python's json reads it, that a repeated key could violate."""
    rest = [schema]
    while rest:
        part = rest.pop()
        if isinstance(part, dict):
            if _counts_free_keys(part):
                raise Unsupported(
                    f"{_KEYWORD} is not supported beside keys that the schema does not list: list them in "
                    "properties, with additionalProperties false, or name them in required"
                )
            rest += part.values()
        elif isinstance(part, list):
            rest += part


def _counts_free_keys(part: dict[str, Any]) -> bool:
    least, required = part.get(_KEYWORD), part.get("required")
    if isinstance(least, bool) or not isinstance(least, int | float):
        return False
    # One key cannot be too few for itself, and required keys are listed by being required.
    certain = max(1, len(set(required)) if isinstance(required, list) and all(map(_is_text, required)) else 0)
    has_free_keys = bool(part.get("patternProperties")) or part.get("additionalProperties", True) is not False
    return least > certain and has_free_keys


def _is_text(value: Any) -> bool:
    return isinstance(value, str)
