"""Names of request fields, made safe for a response header: clients refuse long headers, and servers control
characters."""

from collections.abc import Sequence

MAX_NAMES = 16
MAX_NAME_LENGTH = 64


def named(names: Sequence[str]) -> str:
    """Returns the first names, in plain characters and truncated where long, and how many more there are."""
    shown = [_plain(name) for name in names[:MAX_NAMES]]
    if len(names) > MAX_NAMES:
        shown.append(f"and {len(names) - MAX_NAMES} more")
    return ", ".join(shown)


def _plain(name: str) -> str:
    cut = name if len(name) <= MAX_NAME_LENGTH else f"{name[:MAX_NAME_LENGTH]}..."
    return "".join(character if "!" <= character <= "~" and character != "," else "?" for character in cut)
