"""Request for an endpoint, and the endpoints that it gets."""

from dataclasses import dataclass

from headrace.scheduler.core.queueing.urgency import Urgency


@dataclass(frozen=True, slots=True)
class PickOrder:
    """Everything that decides which endpoint gets a request."""

    prompt_token_count: int = 1
    """Tokens of the prompt, estimated from its length."""
    max_token_count: int = 1024
    """Tokens that the request asks for at most."""
    chain: tuple[int, ...] = ()
    """Chained hashes of the leading pieces of the prompt."""
    is_streamed: bool = False
    """Whether the answer comes token by token."""
    tenant: str = ""
    urgency: Urgency = Urgency.DEFAULT
    first_token_seconds: float | None = None
    """Time in which the first token is wanted. None: what the class promises."""
    subset: frozenset[str] | None = None
    """Endpoints of which one must be picked. None: any of the pool."""


@dataclass(frozen=True, slots=True)
class Pick:
    """Endpoints picked for a request."""

    request_id: str
    endpoints: tuple[str, ...]
    """The chosen one, and the others to try in order if it fails."""
