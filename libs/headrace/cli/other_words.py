"""Words of other servers' commands, for people who come from there."""

from collections.abc import Mapping, Sequence

from headrace.errors import InvalidRequest

MEANINGS: Mapping[str, tuple[str, ...]] = {
    "serve": ("up",),
    "start": ("up",),
    "status": ("ps",),
    "list": ("models", "list"),
    "pull": ("models", "pull"),
    "rm": ("models", "rm"),
}
"""Commands that mean the same as one of Headrace."""
HINTS: Mapping[str, str] = {
    "run": "headrace up MODEL serves a model; then headrace chat, in another terminal, talks to it",
    "stop": "Ctrl-C in the terminal of headrace up, or SIGTERM to its process, stops the platform; headrace drain "
    "takes one worker away",
    "down": "Ctrl-C in the terminal of headrace up, or SIGTERM to its process, stops the platform",
    "restart": "headrace drain WORKER has a worker start again without ending a request; for all, stop headrace up and "
    "start it again",
}
"""Commands that Headrace has no counterpart of, and what to do instead."""


def translated(arguments: Sequence[str]) -> list[str]:
    """Returns a command line in Headrace's own words. Raises InvalidRequest, with the way there, for a word without
    one."""
    word, *rest = arguments or [""]
    if word in HINTS:
        raise InvalidRequest(f"there is no command {word}: {HINTS[word]}")
    return [*MEANINGS.get(word, (word,) if word else ()), *rest]
