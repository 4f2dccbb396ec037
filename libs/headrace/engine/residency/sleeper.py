"""Engine that can sleep at level 1."""

from typing import Protocol, TypeGuard

from headrace.engine.contract.engine import Engine


class Sleeper(Engine, Protocol):
    """Engine that gives its KV cache back while its requests wait, and continues them with the same tokens."""

    def sleep(self) -> None:
        """Gives the KV cache's memory back and keeps the weights. Between two steps, or after one that failed."""

    def wake(self) -> None:
        """Ends `sleep`. Raises MemoryError if there is no memory for the KV cache."""

    def limit_step(self, token_count: int | None) -> None:
        """Computes at most so many tokens in a step from now on. None: as many as its spec allows."""


def can_sleep(engine: Engine) -> TypeGuard[Sleeper]:
    """Whether an engine can sleep with its weights in host memory. On a GPU they would stay where they are."""
    sleeps = all(hasattr(engine, name) for name in ("sleep", "wake", "limit_step"))
    return sleeps and engine.spec.device == "cpu"
