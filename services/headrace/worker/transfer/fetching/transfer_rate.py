"""Measured rate at which KV blocks come from other workers."""

MEMORY = 0.8
"""Weight of the past in the moving average; the newest transfer has the rest."""


class TransferRate:
    """Moving average of the fastest packet of each transfer: the others waited for the prompt to be computed."""

    def __init__(self) -> None:
        self.bytes_per_second = 0.0
        """0: not measured yet."""

    def observe(self, fastest: float) -> None:
        """Takes in the rate of the fastest packet of a transfer, in bytes per second."""
        known = self.bytes_per_second
        self.bytes_per_second = fastest if known == 0 else MEMORY * known + (1 - MEMORY) * fastest
