"""Reads settings that are written as pairs of names and values."""


def split_pairs(value: object, wanted: str) -> object:
    """`name=value,name=value` as a mapping. `wanted` says in the error how it is written."""
    if not isinstance(value, str):
        return value
    pairs = [item.partition("=") for item in value.split(",") if item]
    if any(not name or not given for name, _, given in pairs):
        raise ValueError(f"expected {wanted}, several separated by commas")
    return {name.strip(): given.strip() for name, _, given in pairs}
