"""One request for a place."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from headrace.domain.ids import AttemptId, attempt_id
from headrace.kv.held_prefix import HeldPrefix
from headrace.scheduler.core.queueing.block_holder import BlockHolder
from headrace.scheduler.core.queueing.urgency import FIRST_TOKEN_SECONDS, Urgency

Lane: TypeAlias = tuple[str, frozenset[str] | None]
"""An adapter, and the workers that alone may run the request; see `Ticket`."""


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """Facts about one attempt of one request. Times are seconds of one monotonic clock."""

    request_id: str
    attempt: int
    """Counts the places that the request asked for, from 1."""
    model: str
    tenant: str
    arrival: float
    deadline: float
    """Time at which the request ends, done or not."""
    prompt_token_count: int
    """Tokens to compute before the next one comes: the prompt and what earlier attempts delivered."""
    max_token_count: int
    """Maximum number of tokens still to be generated."""
    urgency: Urgency = Urgency.DEFAULT
    weight: float = 1.0
    """Share of the tenant against others."""
    adapter: str = ""
    resumes: bool = False
    """Whether it had a place before: it goes first, is never refused for want of room, and its tenant has paid."""
    excluded: frozenset[str] = frozenset()
    """Workers that lost it, to be chosen only where there is no other."""
    allowed: frozenset[str] | None = None
    """Workers that alone may get it. None: any."""
    held: Mapping[str, HeldPrefix] = field(default_factory=dict)
    """Leading KV blocks of the prompt that a worker has, by worker id."""
    left: BlockHolder | None = None
    """Worker that gave the request up because it is about to stop."""
    first_token_seconds: float | None = None
    """Time from arrival in which the first token is wanted. None: what the class promises."""

    @property
    def key(self) -> AttemptId:
        """Name of this attempt, unique among all tickets."""
        return attempt_id(self.request_id, self.attempt)

    @property
    def lane(self) -> Lane:
        """The workers that it waits for. While one ticket of a lane finds no place, no other of it does."""
        return self.adapter, self.allowed

    @property
    def rank(self) -> Urgency:
        """The place of its class in the queue."""
        return Urgency.RESUMED if self.resumes else self.urgency

    @property
    def wanted_seconds(self) -> float | None:
        """Time from arrival in which the first token is wanted, by the request or by its class. None: any."""
        return self.first_token_seconds or FIRST_TOKEN_SECONDS.get(self.urgency)

    @property
    def due(self) -> float:
        """Time at which its first token is wanted."""
        wanted = self.wanted_seconds
        return self.deadline if wanted is None else min(self.deadline, self.arrival + wanted)
