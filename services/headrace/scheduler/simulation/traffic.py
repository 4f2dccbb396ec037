"""Requests that arrive one after the other, as a trace recorded them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

BLOCK_TOKENS = 512
"""Tokens that one of `Arrival.block_ids` stands for, as in Mooncake's traces (Qin et al., FAST 2025)."""
UNSHARED_ID = 2**31
"""Token ids from here on belong to one prompt alone."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request of a trace."""

    time: float
    """Seconds since the first request."""
    prompt_token_count: int
    output_token_count: int
    tenant: str = ""
    block_ids: tuple[int, ...] = ()
    """Names of the prompt's leading parts of BLOCK_TOKENS tokens. Prompts with equal names begin alike."""

    def prompt_token_ids(self, number: int) -> tuple[int, ...]:
        """Returns token ids that agree with those of other prompts as far as their blocks do. `number`: number of the
        request in its trace. Empty: nothing is known of the prompt but its length."""
        if not self.block_ids:
            return ()
        shared = (token_id for block_id in self.block_ids for token_id in (block_id,) * BLOCK_TOKENS)
        token_ids = tuple(token_id for token_id, _ in zip(shared, range(self.prompt_token_count), strict=False))
        return token_ids + (UNSHARED_ID + number,) * (self.prompt_token_count - len(token_ids))


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests in the order of their arrival."""

    arrivals: tuple[Arrival, ...]
    skipped_count: int = 0
    """Rows of the trace that were left out, because they have no prompt or no output."""

    @classmethod
    def of(cls, rows: Iterable[Arrival]) -> "Traffic":
        """Sorts rows by time, counts time from the first, and leaves out rows without prompt or output."""
        found = sorted(rows, key=lambda row: row.time)
        kept = [row for row in found if row.prompt_token_count and row.output_token_count]
        first = kept[0].time if kept else 0.0
        return cls(tuple(replace(row, time=row.time - first) for row in kept), len(found) - len(kept))

    @property
    def shares_prefixes(self) -> bool:
        """Whether it is known which prompts begin alike."""
        return any(arrival.block_ids for arrival in self.arrivals)

    def part(self, seconds: float | None, limit: int | None) -> "Traffic":
        """Returns the requests of the first `seconds`, at most `limit`. None: all."""
        arrivals = self.arrivals[:limit]
        if seconds is not None:
            arrivals = tuple(arrival for arrival in arrivals if arrival.time < seconds)
        return replace(self, arrivals=arrivals)

    def at_rate(self, factor: float) -> Iterator[Arrival]:
        """Yields the requests as if `factor` times as many came per second."""
        for arrival in self.arrivals:
            yield replace(arrival, time=arrival.time / factor)
