"""One member of a batch, as the worker keeps it."""

from dataclasses import dataclass

from headrace.engine.contract.request import EngineRequest
from headrace.worker.transfer.fetching.prefill_source import PrefillSource


@dataclass(frozen=True, slots=True)
class Assignment:
    """One attempt of a request that a scheduler hands over."""

    request: EngineRequest
    request_id: str
    attempt: int
    gateway_id: str
    """The gateway that its tokens go to."""
    model: str
    embeds: bool
    """Whether an embedding is wanted instead of text."""
    traceparent: str
    """W3C trace context of the request; empty when it has none."""
    remaining_seconds: float
    """Seconds left of the time that the request was given."""
    prefill_source: PrefillSource | None = None
    """Worker that computes the prompt. None: it is computed here."""
