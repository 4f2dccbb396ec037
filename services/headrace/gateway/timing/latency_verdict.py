"""Verdict on one request: the targets of its class, and which it met."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LatencyVerdict:
    """Targets in seconds, and results. A result is None where there was nothing to measure."""

    ttft: float
    """Target of the time to the first token."""
    tpot: float
    """Target of the mean time per output token after the first."""
    ttft_met: bool | None = None
    tpot_met: bool | None = None
    failed: bool = False
    """Whether the platform failed the request."""

    @property
    def met(self) -> bool:
        """Whether the request met its budget: all that was measured, and it was not failed."""
        return not self.failed and False not in (self.ttft_met, self.tpot_met)
