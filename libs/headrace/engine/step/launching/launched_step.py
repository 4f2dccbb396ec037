"""The Protocol of a step that a device computes while the host continues."""

from typing import Protocol

from headrace.engine.batching.step_plan import Chunk


class LaunchedStep(Protocol):
    """Outcome of a step, which may not be there yet."""

    @property
    def sampled(self) -> tuple[Chunk, ...]:
        """Chunks after which a token is chosen, one in each row."""
        ...

    def wait(self) -> tuple[list[int], list[float]]:
        """Returns the chosen token of each row, and its highest logit, which is NaN where any of the row is."""
        ...
