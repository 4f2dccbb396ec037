"""Measured rate at which KV blocks come."""

MEMORY = 0.8
"""Weight of the past in the moving average; the newest observation has the rest."""


class TransferRate:
    """Moving average: of each batch that a disk gave, and of the fastest packet of each transfer from a worker, because
    the others waited for the prompt to be computed."""

    def __init__(self) -> None:
        self.bytes_per_second = 0.0
        """0: not measured yet."""

    def observe(self, bytes_per_second: float) -> None:
        """Takes in a rate."""
        known = self.bytes_per_second
        self.bytes_per_second = bytes_per_second if known == 0 else MEMORY * known + (1 - MEMORY) * bytes_per_second
