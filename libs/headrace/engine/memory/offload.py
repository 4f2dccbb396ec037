"""The Protocol of weights that can leave a device for the memory of its host."""

from typing import Protocol


class Offload(Protocol):
    """Weights of one model on a device with a memory of its own."""

    def offload(self) -> None:
        """Copies the weights to the host and gives the memory of the device back. Raises MemoryError, and leaves them
        where they are, if the host has no room."""

    def restore(self) -> None:
        """Brings the weights back. Raises an out-of-memory error, and leaves them on the host, if the device has no
        room."""


def offload_of(runner: object) -> Offload | None:
    """Returns the weights of a runner; None where they are in the host's memory, or stay on their device."""
    found: Offload | None = getattr(runner, "offload", None)
    return found
