"""Endpoints that the lines of batches may ask."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from headrace.gateway.batches.lines.line_call import LineCall

Answer: TypeAlias = Callable[[LineCall, bytes], Awaitable[None]]
"""Answers a body with one JSON document. Raises HeadraceError."""


class LineGroup(Protocol):
    """Endpoints of one API that answer whole."""

    @property
    def scopes(self) -> Set[str] | None:
        """Scopes of which a key must have one."""

    def whole_answers(self) -> Mapping[str, Answer]:
        """Returns answers by path."""


@dataclass(frozen=True, slots=True)
class LineEndpoint:
    """One path that a line may name."""

    answer: Answer
    scopes: Set[str]


def line_endpoints(groups: Iterable[LineGroup]) -> dict[str, LineEndpoint]:
    """Returns the endpoints of all groups, by path."""
    return {
        path: LineEndpoint(answer, group.scopes or frozenset())
        for group in groups
        for path, answer in group.whole_answers().items()
    }
