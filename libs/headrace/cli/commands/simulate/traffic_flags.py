"""Flags of the traffic of a simulation: which part of a trace, how fast, and what counts as good."""

from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from headrace.errors import InvalidRequest


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class TrafficFlags:
    """Part of a trace to play, and the service levels of its requests."""

    rate: float = 1.0
    """Factor by which requests come faster than in the trace."""
    seconds: float | None = None
    """Play only the first seconds of the trace."""
    limit: int | None = None
    """Play only so many requests of the trace, the first ones."""
    ttft_ms: Annotated[float | None, Parameter(name=("--ttft-ms", "--slo-ttft-ms"))] = None
    """Goodput counts requests whose first token came within this many milliseconds."""
    itl_ms: Annotated[float | None, Parameter(name=("--itl-ms", "--slo-tpot-ms"))] = None
    """Goodput counts requests whose mean time between tokens stayed within this many milliseconds."""
    timeout: float = 600.0
    """Seconds that a request may take in all."""
    overhead_ms: float = 0.0
    """Milliseconds between a request and its arrival at the scheduler, which are part of the TTFT."""

    def settings(self) -> dict[str, Any]:
        """Returns the settings of a Scenario that follow. Raises InvalidRequest for flags that cannot be."""
        if not 0 < self.rate < float("inf"):
            raise InvalidRequest("--rate must be above 0")
        if (self.seconds is not None and not self.seconds > 0) or (self.limit is not None and self.limit < 1):
            raise InvalidRequest("--seconds must be above 0, and --limit at least 1")
        if not (self.timeout > 0 and self.overhead_ms >= 0):
            raise InvalidRequest("--timeout must be above 0, and --overhead-ms at least 0")
        return {
            "rate": self.rate,
            "seconds": self.seconds,
            "limit": self.limit,
            "timeout_seconds": self.timeout,
            "overhead_seconds": self.overhead_ms / 1000,
            "ttft_seconds": None if self.ttft_ms is None else self.ttft_ms / 1000,
            "tpot_seconds": None if self.itl_ms is None else self.itl_ms / 1000,
        }
