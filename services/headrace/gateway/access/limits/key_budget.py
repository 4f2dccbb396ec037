"""Budget of a key: token buckets, each a level and the time at which it held, and the places that are taken.

A bucket of capacity C that fills in T seconds gains C / T each second up to C (Turner, "New directions in
communications", IEEE Communications Magazine 24(10), 1986). After a pause its whole budget may be spent at once.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from headrace.access.key_record import KeyLimits
from headrace.gateway.access.limits.limit import REQUESTS, Limit, limits_of

PLACE_SECONDS = 15.0
"""Seconds after which the places of a gateway that says nothing are free again."""
FIRST_RETRY_SECONDS = 1.0
"""Seconds after which a place may be free, where no better estimate is known."""


@dataclass(frozen=True, slots=True)
class Level:
    """Content of a bucket at a time, in seconds since 1970."""

    value: float
    time: float


@dataclass(frozen=True, slots=True)
class PlacesOfKey:
    """Requests of one gateway that run, and until when they count."""

    count: int
    expires: float


@dataclass(frozen=True, slots=True)
class Spending:
    """Requests and tokens that are taken out of buckets; negative numbers put something back."""

    requests: int = 0
    tokens: int = 0

    def plus(self, other: "Spending") -> "Spending":
        return Spending(self.requests + other.requests, self.tokens + other.tokens)

    def negated(self) -> "Spending":
        return Spending(-self.requests, -self.tokens)

    def of(self, limit: Limit) -> int:
        return self.requests if limit.resource == REQUESTS else self.tokens


@dataclass(frozen=True, slots=True)
class Refusal:
    """The limit that a request does not fit into."""

    limit: Limit | None
    """None: too many requests of the key run at once."""
    retry_after: float | None
    """Seconds after which it would fit. None: it never does."""


@dataclass
class KeyBudget:
    """State of one key. Time never runs backwards here, whatever the clocks of gateways say."""

    levels: dict[str, Level] = field(default_factory=dict)
    places: dict[str, PlacesOfKey] = field(default_factory=dict)
    """Places taken, by incarnation of a gateway."""

    def copy(self) -> "KeyBudget":
        return replace(self, levels=dict(self.levels), places=dict(self.places))

    def fill(self, limits: Sequence[Limit], now: float) -> None:
        """Fills the buckets up to `now`, and frees the places of gateways that are gone."""
        self.levels = {limit.name: self._filled(limit, now) for limit in limits}
        self.places = {name: taken for name, taken in self.places.items() if taken.expires > now}

    def _filled(self, limit: Limit, now: float) -> Level:
        level = self.levels.get(limit.name)
        if level is None:
            return Level(float(limit.capacity), now)
        moment = max(level.time, now)
        gained = (moment - level.time) * limit.capacity / limit.seconds
        return Level(min(float(limit.capacity), level.value + gained), moment)

    def hold(self, gateway: str, count: int, now: float) -> None:
        """Notes how many requests of one gateway run."""
        self.places.pop(gateway, None)
        if count:
            self.places[gateway] = PlacesOfKey(count, now + PLACE_SECONDS)

    def refusal(self, limits: KeyLimits, wanted: Spending) -> Refusal | None:
        """Returns why a request does not fit, or None if it does."""
        refused = [self._lack(limit, wanted.of(limit)) for limit in limits_of(limits)]
        if limits.concurrency is not None and sum(taken.count for taken in self.places.values()) >= limits.concurrency:
            refused.append(Refusal(None, FIRST_RETRY_SECONDS))
        found = [refusal for refusal in refused if refusal is not None]
        # The one that lasts longest: a retry that meets the next limit would be in vain.
        return max(found, key=lambda one: float("inf") if one.retry_after is None else one.retry_after, default=None)

    def _lack(self, limit: Limit, wanted: int) -> Refusal | None:
        level = self.levels[limit.name].value
        if wanted <= level:
            return None
        if wanted > limit.capacity:
            return Refusal(limit, None)
        return Refusal(limit, (wanted - level) * limit.seconds / limit.capacity)

    def spend(self, limits: Sequence[Limit], spending: Spending) -> None:
        """Takes out of the buckets, or puts back, never beyond the brim."""
        for limit in limits:
            level = self.levels[limit.name]
            value = min(float(limit.capacity), level.value - spending.of(limit))
            self.levels[limit.name] = Level(value, level.time)


def wall_clock() -> float:
    """Returns the time that gateways share, in seconds since 1970."""
    return time.time()
