"""Worker considered for a ticket, and the figures for and against it."""

from dataclasses import dataclass

from headrace.kv.held_prefix import HeldPrefix


@dataclass(frozen=True, slots=True)
class Candidate:
    """Figures at the time of the choice."""

    worker_id: str
    load: int
    """Requests that it held or that were in flight to it."""
    held: HeldPrefix
    """Leading KV blocks of the prompt that it had."""
    first_token_seconds: float
    """Predicted time until the first token there."""
    price: float
    """Predicted price of the whole request there, in the currency of the profiles."""
    remark: str = ""
    """Reason why it could not be chosen. Empty: it could."""
