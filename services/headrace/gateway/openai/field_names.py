"""Names of request fields, fit for a response header: clients refuse long headers, and servers control characters."""

from collections.abc import Sequence

MAX_NAMES = 16
MAX_NAME_LENGTH = 64


def named(names: Sequence[str]) -> str:
    """The first names, in plain characters and cut where they are long, and how many more there are."""
    shown = [_plain(name) for name in names[:MAX_NAMES]]
    if len(names) > MAX_NAMES:
        shown.append(f"and {len(names) - MAX_NAMES} more")
    return ", ".join(shown)


def _plain(name: str) -> str:
    cut = name if len(name) <= MAX_NAME_LENGTH else f"{name[:MAX_NAME_LENGTH]}..."
    return "".join(character if "!" <= character <= "~" and character != "," else "?" for character in cut)
