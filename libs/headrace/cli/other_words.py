"""Words of other servers' commands, for people who come from there."""

from collections.abc import Mapping, Sequence

from headrace.errors import InvalidRequest

MEANINGS: Mapping[str, tuple[str, ...]] = {
    "serve": ("up",),
    "start": ("up",),
    "down": ("stop",),
    "list": ("models", "list"),
    "ls": ("models", "list"),
    "pull": ("models", "pull"),
    "rm": ("models", "rm"),
    "delete": ("models", "rm"),
    "remove": ("models", "rm"),
}
"""Commands that mean the same as one of Headrace."""
HINTS: Mapping[str, str] = {
    "run": "headrace up MODEL serves a model; then headrace chat, in another terminal, talks to it",
}
"""Commands that Headrace has no counterpart of, and what to do instead."""


def translated(arguments: Sequence[str]) -> list[str]:
    """Returns a command line in Headrace's own words. Raises InvalidRequest, with the way there, for a word without
    one."""
    word, *rest = arguments or [""]
    if word in HINTS:
        raise InvalidRequest(f"there is no command {word}: {HINTS[word]}")
    return [*MEANINGS.get(word, (word,) if word else ()), *rest]
