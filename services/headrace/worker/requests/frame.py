"""Output of engine steps for the requests of one gateway."""

from dataclasses import dataclass

from headrace.engine.contract.request import Delta
from headrace.errors import HeadraceError
from headrace.worker.transfer.fetching.fetched_tokens import FetchedTokens


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds that a request spent in each stage on the worker."""

    queue_seconds: float
    prefill_seconds: float
    decode_seconds: float


# Not frozen: one is made for each token, which would take three times as long.
@dataclass(slots=True)
class SessionDelta:
    """Result of one step for one attempt of a request: tokens, or the error that ended it. Never changed once sent."""

    request_id: str
    attempt: int
    delta: Delta | None = None
    error: HeadraceError | None = None
    timings: Timings | None = None
    """Set with the first delta and the last."""
    cost: float = 0.0
    """Price of the time of the accelerator that went into it. 0: not known."""
    fetched: FetchedTokens | None = None
    """Tokens that were fetched for it. Set with the first delta, if any were."""


@dataclass(frozen=True, slots=True)
class Frame:
    """All results that came since the last frame, in order."""

    step: int
    """Steps that the engine has done."""
    deltas: list[SessionDelta]
