"""One request of an agent's session."""

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """A request as an agent sends it, and what the answer says it is without."""

    title: str
    path: str
    body: Json
    ignored: str = ""
    """Content of `x-headrace-ignored-fields`."""
    counts: int | None = None
    """Number of calls in the answer, where the request says how many there must be."""
