"""Virtual time, which passes from one planned act to the next."""

import heapq
import itertools
from collections.abc import Callable
from math import inf


class VirtualClock:
    """Performs acts in the order of their times; acts of one time in the order in which they were planned."""

    def __init__(self) -> None:
        self.now = 0.0
        """Virtual seconds since the start."""
        self.act_count = 0
        """Acts performed so far."""
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def at(self, time: float, act: Callable[[], None]) -> None:
        """Plans an act. A time that has passed means now."""
        heapq.heappush(self._agenda, (max(time, self.now), next(self._numbers), act))

    def advance(self, until: float = inf) -> bool:
        """Performs the next act, unless it comes after `until`. Returns whether there was one."""
        if not self._agenda or self._agenda[0][0] > until:
            return False
        self.now, _, act = heapq.heappop(self._agenda)
        self.act_count += 1
        act()
        return True

    def run(self, until: float) -> None:
        """Lets time pass until `until`, in virtual seconds."""
        while self.advance(until):
            pass
        self.now = until
