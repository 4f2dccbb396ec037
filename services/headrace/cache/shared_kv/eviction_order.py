"""Order in which records give way to others."""

import heapq
import itertools
from collections.abc import Iterable
from dataclasses import dataclass

ASSUMED_SECONDS_PER_BYTE = 1e-8
"""Time in which a byte of a block is computed where workers do not say: a hundred megabytes a second."""
MAX_STALE = 4096
"""Number of outdated ranks beyond which they are thrown away."""


@dataclass(slots=True)
class Holding:
    """A record, as far as its place in the order goes."""

    size: int
    """Bytes that it takes."""
    seconds: float
    """Time in which its block would be computed. 0: not known."""
    use_count: int = 1
    rank: tuple[float, int] = (0.0, 0)

    @property
    def worth(self) -> float:
        """Seconds that its uses saved, for each byte."""
        each = self.seconds / self.size if self.seconds > 0 else ASSUMED_SECONDS_PER_BYTE
        return self.use_count * each


class EvictionOrder:
    """Keeps what saves the most time for its bytes: greedy dual size frequency (Cherkasova, 1998). The rank of a record
    is its worth plus the rank of the last one that gave way when it was used, so that old uses count less and less.
    Among equals, the one goes first that was used first."""

    def __init__(self) -> None:
        self.used_bytes = 0
        """Bytes of all records."""
        self._held: dict[bytes, Holding] = {}
        self._heap: list[tuple[tuple[float, int], bytes]] = []
        self._numbers = itertools.count()
        self._floor = 0.0
        """Rank of the last record that gave way."""

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, key: bytes) -> bool:
        return key in self._held

    def size_of(self, key: bytes) -> int:
        """Returns the bytes of a record."""
        return self._held[key].size

    def add(self, key: bytes, size: int, seconds: float) -> None:
        """Adds a record, or replaces the one of its key."""
        earlier = self._held.get(key)
        holding = Holding(size, seconds, 1 if earlier is None else earlier.use_count)
        self.used_bytes += size - (0 if earlier is None else earlier.size)
        self._held[key] = holding
        self._put(key, holding)

    def use(self, key: bytes) -> None:
        """Notes a use of a record."""
        holding = self._held[key]
        holding.use_count += 1
        self._put(key, holding)

    def take(self, size: int) -> dict[bytes, Holding]:
        """Removes the records that are worth the least, of at least so many bytes in all, or every one."""
        taken: dict[bytes, Holding] = {}
        total = 0
        while self._held and total < size:
            rank, key = heapq.heappop(self._heap)
            holding = self._held.get(key)
            if holding is None or holding.rank != rank:
                continue
            self._floor = rank[0]
            taken[key] = self._held.pop(key)
            total += holding.size
        self.used_bytes -= total
        return taken

    def restore(self, taken: Iterable[tuple[bytes, Holding]]) -> None:
        """Adds records that `take` removed, where they were."""
        for key, holding in taken:
            self._held[key] = holding
            self.used_bytes += holding.size
            heapq.heappush(self._heap, (holding.rank, key))

    def _put(self, key: bytes, holding: Holding) -> None:
        holding.rank = (self._floor + holding.worth, next(self._numbers))
        heapq.heappush(self._heap, (holding.rank, key))
        if len(self._heap) > 2 * len(self._held) + MAX_STALE:
            self._heap = [(each.rank, other) for other, each in self._held.items()]
            heapq.heapify(self._heap)
