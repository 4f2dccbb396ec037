"""Capture of a computation in static memory, to be run again as one unit."""

from collections.abc import Callable
from typing import Protocol

Computation = Callable[[], None]
"""Reads and writes memory that stays where it is, and neither waits for the device nor allocates what outlives it."""


class StepCapture(Protocol):
    """A way to run the same computation again and again."""

    def capture(self, compute: Computation) -> Computation:
        """Returns what runs `compute` again, with what its memory holds then."""
        ...
