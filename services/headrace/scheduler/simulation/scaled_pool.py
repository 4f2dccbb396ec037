"""Workers of a simulated platform whose number follows the demand."""

import itertools
from dataclasses import dataclass

from headrace.engine.engines.sim import SimConfig
from headrace.scheduler.simulation.simulated_platform import MODEL, SimulatedPlatform

LOOK_SECONDS = 1.0
"""Seconds between two looks at what is wanted."""


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """Bounds of the number of workers."""

    least: int
    most: int
    start_seconds: float
    """Time in which a worker is ready after it was begun."""


class ScaledPool:
    """Starts and retires workers as the scheduler wants them, and counts the time for which they are paid."""

    def __init__(self, platform: SimulatedPlatform, config: SimConfig, count: int, limits: PoolLimits) -> None:
        """`count`: workers that are ready at the start."""
        self.platform = platform
        self._config = config
        self._limits = limits
        self._numbers = itertools.count()
        self._begun: dict[str, float] = {}
        """Times at which the workers that were not retired were begun, by name, the newest last."""
        self._paid: dict[str, float] = {}
        """Times at which the workers that have not left were begun."""
        self._left_seconds = 0.0
        self.most_count = 0
        """Largest number of workers at once."""
        for _ in range(count):
            self._begin(0.0)
        self._look()

    def worker_seconds(self) -> float:
        """Returns the time of all workers so far, their starts and ends included."""
        return self._left_seconds + sum(self.platform.now - since for since in self._paid.values())

    def _look(self) -> None:
        self._settle()
        wanted = self.platform.core.desk(MODEL).demand.wanted
        if wanted is not None:
            count = min(max(wanted, self._limits.least), self._limits.most)
            while len(self._begun) < count:
                self._begin(self._limits.start_seconds)
            while len(self._begun) > count:
                self._end(next(reversed(self._begun)))
        self.most_count = max(self.most_count, len(self._paid))
        self.platform.clock.at(self.platform.now + LOOK_SECONDS, self._look)

    def _begin(self, start_seconds: float) -> None:
        name, now = f"worker-{next(self._numbers)}", self.platform.now
        self._begun[name] = self._paid[name] = now
        if start_seconds:
            self.platform.clock.at(now + start_seconds, lambda: self._ready(name))
        else:
            self._ready(name)

    def _ready(self, name: str) -> None:
        if name in self._begun:
            self.platform.add_worker(name, self._config)

    def _end(self, name: str) -> None:
        del self._begun[name]
        if name in self.platform.workers:
            self.platform.retire_worker(name)

    def _settle(self) -> None:
        """Stops the clock of workers that have left, or were given up before they were ready."""
        for name in [name for name in self._paid if name not in self._begun and name not in self.platform.workers]:
            self._left_seconds += self.platform.now - self._paid.pop(name)
