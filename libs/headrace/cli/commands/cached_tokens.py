"""Words about where the KV of a prompt's cached tokens was."""

from collections.abc import Iterable
from typing import Any

PLACES = {
    "memory": "in memory",
    "disk": "from a disk",
    "worker": "from another worker",
    "store": "from the shared store",
}
"""Words about the places, by their names."""
FETCHED = ("disk", "worker", "store")
"""Places from which KV has to come first."""


def place_words(record: dict[str, Any], places: Iterable[str] = PLACES) -> str:
    """Returns how many cached tokens of a request's record were in which of the places, as a list in words."""
    # A gateway of the release before does not say where they were.
    counts: dict[str, int] = record.get("cached_tokens_from", {})
    return ", ".join(f"{counts[place]} {PLACES[place]}" for place in places if counts.get(place))


def cached_sentence(record: dict[str, Any]) -> str:
    """Returns a sentence about the cached tokens of a request's record, and where their KV was."""
    cached = f"{record['cached_tokens']} of {record['prompt_tokens']} prompt tokens were cached"
    return f"{cached}: {words}" if (words := place_words(record)) else cached
