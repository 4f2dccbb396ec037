"""Rules for parameters one after the other, of which some may be left out."""

from collections.abc import Mapping
from typing import Any


def parameter_names(schema: Mapping[str, Any]) -> tuple[list[str], int]:
    """Returns the parameters of a schema in its order, required ones first, and the number of those."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    required = [name for name in properties if name in schema.get("required", [])]
    return [*required, *(name for name in properties if name not in required)], len(required)


def sequence_rules(rule: str, count: int, required_count: int, separator: str) -> list[str]:
    """Returns rules for parameters that `{rule}_0`, `{rule}_1` and so on match, the required ones first, with
    `separator`, a Lark expression, between the ones present. `{rule}_head_0` matches all of them."""
    lines = []
    for index in range(count):
        this, later = f"{rule}_{index}", f"{index + 1}"
        skipped = "" if index < required_count else f" | {rule}_head_{later}"
        lines.append(f"{rule}_head_{index}: {this} {rule}_tail_{later}{skipped}")
        optional = f"{separator} {this}" if index < required_count else f"({separator} {this})?"
        lines.append(f"{rule}_tail_{index}: {optional} {rule}_tail_{later}")
    return [*lines, f'{rule}_head_{count}: ""', f'{rule}_tail_{count}: ""']
