"""Types and units of settings in words, from their JSON schemas and names."""

from collections.abc import Mapping
from typing import Any

UNITS = {
    "seconds": "s",
    "bytes": "bytes",
    "tokens": "tokens",
    "bandwidth": "bytes/s",
    "price": "currency/h",
    "length": "tokens",
}
"""Units by the last words of names."""
OTHER_UNITS = {
    "ttft_targets": "s",
    "tpot_targets": "s",
    "block_size": "tokens",
    "assumed_transfer_rate": "bytes/s",
    "arithmetic_rate": "operations/s",
    "max_step_token_count": "tokens",
    "sim_prefill_seconds_per_token": "s/token",
    "sim_decode_seconds_per_sequence": "s/sequence",
}
"""Units of settings whose names do not end with them."""
WORDS = {"string": "text", "integer": "integer", "number": "number", "boolean": "true or false", "null": "unset"}


def unit_of(name: str) -> str:
    """Returns the unit of a setting. Empty: it has none."""
    return OTHER_UNITS.get(name) or UNITS.get(name.rpartition("_")[2], "")


def type_of(schema: Mapping[str, Any]) -> str:
    """Returns the type of a setting, with its bounds, such as `integer, 1 to 64`."""
    if "enum" in schema:
        return " or ".join(f"`{each}`" for each in schema["enum"])
    if "anyOf" in schema:
        # A list or mapping may be written as text as well, which the page says once for all.
        first, *others = schema["anyOf"]
        return type_of(first) + (", or unset" if {"type": "null"} in others else "")
    match schema.get("type"):
        case "array":
            return f"list of {type_of(schema['items'])}"
        case "object":
            values = schema.get("additionalProperties")
            return f"table of {type_of(values)}" if isinstance(values, Mapping) else "table"
        case "string" if schema.get("format") == "path":
            return "path"
        case other:
            return WORDS[other or "string"] + _bounds(schema)


def _bounds(schema: Mapping[str, Any]) -> str:
    match schema:
        case {"minimum": low, "maximum": high}:
            return f", {_number(low)} to {_number(high)}"
        case {"minimum": low}:
            return f", at least {_number(low)}"
        case {"exclusiveMinimum": low}:
            return f", above {_number(low)}"
        case {"maximum": high}:
            return f", at most {_number(high)}"
        case _:
            return ""


def _number(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
