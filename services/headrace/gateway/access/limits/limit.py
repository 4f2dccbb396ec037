"""Limits of a key as buckets see them: how many requests or tokens there are in how many seconds."""

from dataclasses import dataclass

from headrace.access.key_record import DAY, MINUTE, KeyLimits

REQUESTS, TOKENS = "requests", "tokens"


@dataclass(frozen=True, slots=True)
class Limit:
    """Budget of one bucket. It is full at first, and fills again at an even pace."""

    name: str
    resource: str
    """REQUESTS or TOKENS."""
    capacity: int
    seconds: float
    """Time in which an empty bucket fills."""

    @property
    def period(self) -> str:
        return "minute" if self.seconds == MINUTE else "day"


def limits_of(limits: KeyLimits) -> list[Limit]:
    """Returns the buckets of a key: those of requests first, the shorter before the longer."""
    given = (
        ("requests_per_minute", REQUESTS, limits.requests_per_minute, MINUTE),
        ("requests_per_day", REQUESTS, limits.requests_per_day, DAY),
        ("tokens_per_minute", TOKENS, limits.tokens_per_minute, MINUTE),
        ("tokens_per_day", TOKENS, limits.tokens_per_day, DAY),
    )
    return [Limit(name, kind, capacity, seconds) for name, kind, capacity, seconds in given if capacity is not None]
