"""Hints for names that are misspelt."""

import difflib
from collections.abc import Iterable


def hint(name: str, known: Iterable[str], form: str = "{}") -> str:
    """Returns what follows the message about an unknown name: the nearest known one, written in a form; empty where
    none is near."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f": did you mean {form.format(near[0])}?" if near else ""
