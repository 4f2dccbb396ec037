"""Overflow of a model: a smaller one answers while the queue of the one asked for is full, or while it sleeps."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TypeVar

from headrace.errors import Overloaded
from headrace.gateway.access.caller import Caller

HEADER = "x-headrace-overflow"
"""Header of an answer, or key of a call's trailing metadata, that names the model asked for where another answered."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Overflow:
    """Smaller models that the operator names for larger ones."""

    predicted_wait: Callable[[str], float]
    """Returns the seconds until a model is awake."""
    smaller: Mapping[str, str] = field(default_factory=dict)
    """Smaller models by the names of the larger ones."""
    longest_wait: float = inf
    """Predicted seconds until a model is awake from which on the smaller one answers, if it is sooner."""

    async def run(
        self, model: str, caller: Caller, attempt: Callable[[str], Awaitable[T]], has_started: Callable[[], bool]
    ) -> T:
        """Calls `attempt` with the model that is to answer, and once more with the smaller one if the first has no room
        and nothing was sent yet. Raises what the last attempt raises."""
        chosen = self._awake(model, caller)
        try:
            return await attempt(chosen)
        except Overloaded:
            smaller = self._allowed(chosen, caller)
            if smaller is None or has_started():
                raise
        return await attempt(smaller)

    def _awake(self, model: str, caller: Caller) -> str:
        smaller = self._allowed(model, caller)
        if smaller is None:
            return model
        wait, other_wait = self.predicted_wait(model), self.predicted_wait(smaller)
        return model if wait <= self.longest_wait or other_wait >= wait else smaller

    def _allowed(self, model: str, caller: Caller) -> str | None:
        """Returns the smaller model, if there is one and the caller may use both."""
        smaller = self.smaller.get(model)
        return smaller if smaller is not None and caller.may_use(model) and caller.may_use(smaller) else None
