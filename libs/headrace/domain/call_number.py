"""Ids of calls of models that number them, as Kimi K2: the function's name, and the number in the conversation."""

import re
from collections.abc import Container

_FORM = re.compile(r"functions\.(?P<name>.+):(?P<number>[0-9]{1,6})")


def numbered_id(name: str, number: int) -> str:
    """Returns the id of a call."""
    return f"functions.{name}:{number}"


def is_numbered(call_id: str, name: str) -> bool:
    """Whether an id has the form of those of a function."""
    found = _FORM.fullmatch(call_id)
    return found is not None and found["name"] == name


def free_id(name: str, number: int, taken: Container[str]) -> str:
    """Returns the id with the first number, from `number` on, that no call of the function has."""
    while (found := numbered_id(name, number)) in taken:
        number += 1
    return found
