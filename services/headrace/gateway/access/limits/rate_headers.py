"""Headers with the remainder of a key's limits, named as OpenAI names them."""

from collections.abc import Mapping

from headrace.access.key_record import KeyLimits
from headrace.gateway.access.limits.key_budget import KeyBudget
from headrace.gateway.access.limits.limit import REQUESTS, TOKENS, Limit, limits_of


def rate_headers(limits: KeyLimits, budget: KeyBudget) -> dict[str, str]:
    """Returns the headers for requests and for tokens, each of the limit that is nearest to its end."""
    headers: dict[str, str] = {}
    for resource in (REQUESTS, TOKENS):
        concerned = [limit for limit in limits_of(limits) if limit.resource == resource]
        if concerned:
            nearest = min(concerned, key=lambda limit: budget.levels[limit.name].value / limit.capacity)
            headers |= _headers(nearest, budget.levels[nearest.name].value)
    return headers


def _headers(limit: Limit, level: float) -> Mapping[str, str]:
    missing = (limit.capacity - level) * limit.seconds / limit.capacity
    return {
        f"x-ratelimit-limit-{limit.resource}": str(limit.capacity),
        f"x-ratelimit-remaining-{limit.resource}": str(max(0, int(level))),
        f"x-ratelimit-reset-{limit.resource}": duration(missing),
    }


def duration(seconds: float) -> str:
    """Writes a time as OpenAI does: 12ms, 1.5s, 6m0s, 23h59m12s."""
    if seconds < 1:
        return f"{max(0, round(seconds * 1000))}ms"
    if seconds < 60:
        return f"{seconds:.3f}".rstrip("0").rstrip(".") + "s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{rest}s" if hours else f"{minutes}m{rest}s"
