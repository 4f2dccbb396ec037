"""Reading of the arguments of one call."""

from typing import Protocol


class ArgumentReader(Protocol):
    """Reads arguments as they arrive."""

    def push(self, text: str) -> tuple[str, str | None]:
        """Returns the JSON text that is new, and what follows the arguments, or None while they continue."""

    def flush(self) -> str:
        """Returns the JSON text that was held back when the answer ends before its arguments do."""
