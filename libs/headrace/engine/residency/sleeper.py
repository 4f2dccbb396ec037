"""Engine that can sleep at level 1."""

from typing import Protocol, TypeGuard

from headrace.engine.contract.engine import Engine


class Sleeper(Engine, Protocol):
    """Engine that gives its KV cache back while its requests wait, and continues them with the same tokens."""

    @property
    def sleeps_on_host(self) -> bool:
        """Whether its weights are in the memory of the host while it sleeps."""

    def sleep(self, *, in_place: bool = False) -> None:
        """Gives the KV cache's memory back and keeps the weights in the memory of the host, or `in_place`. Between two
        steps, or after one that failed. Raises MemoryError if the host has no room."""

    def wake(self) -> None:
        """Ends `sleep`. Raises MemoryError if there is no memory for weights or the KV cache."""

    def limit_step(self, token_count: int | None) -> None:
        """Computes at most so many tokens in a step from now on. None: as many as its spec allows."""


def can_rest(engine: Engine) -> TypeGuard[Sleeper]:
    """Whether an engine can give its KV cache back and continue."""
    return all(hasattr(engine, name) for name in ("sleep", "wake", "limit_step", "sleeps_on_host"))


def can_sleep(engine: Engine) -> TypeGuard[Sleeper]:
    """Whether an engine can sleep with its weights in host memory."""
    return can_rest(engine) and engine.sleeps_on_host
