"""Reads settings that are written as pairs of a name and a value."""


def split_pairs(value: object, wanted: str) -> object:
    """Splits `name=value,name=value` into a mapping. `wanted` is the format that the error message shows."""
    if not isinstance(value, str):
        return value
    pairs = [item.partition("=") for item in value.split(",") if item]
    if any(not name or not given for name, _, given in pairs):
        raise ValueError(f"expected {wanted}, several separated by commas")
    return {name.strip(): given.strip() for name, _, given in pairs}
