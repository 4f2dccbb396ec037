"""WorkerScaling of a running platform: starts and stops workers as its schedulers want them."""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from headrace.launch.platform_spec import ModelSource, PlatformSpec
from headrace.launch.roster import Roster
from headrace.launch.worker_bounds import WorkerBounds

LOOK_SECONDS = 0.5
SHOW_SECONDS = 10.0
"""Seconds after the start of a gateway for which every model has a worker."""

_log = logging.getLogger(__name__)


class ResizablePlatform(Protocol):
    """Platform whose workers can become more or fewer."""

    @property
    def spec(self) -> PlatformSpec:
        """Models that it serves now, and its processes."""

    @property
    def leaving_numbers(self) -> Collection[int]:
        """Numbers of workers that are being stopped."""

    @property
    def gateway_starts(self) -> int:
        """Number that changes with every start of a gateway."""

    def resize(self, models: Sequence[ModelSource]) -> bool:
        """Begins to have the workers that models say. Returns whether it does: not while what is served changes."""


class WantedCounts(Protocol):
    """Demand for workers."""

    async def ask(self) -> Mapping[str, int]:
        """Returns the wanted workers of each model of which they are known."""

    async def close(self) -> None:
        """Ends what asks."""


class WorkerScaling:
    """Keeps the number of each model's workers within bounds, and there at the demand. Of several workers the one with
    the largest number ends first."""

    def __init__(
        self,
        platform: ResizablePlatform,
        bounds: WorkerBounds,
        demand: WantedCounts,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._platform = platform
        self._bounds = bounds
        self._demand = demand
        self._clock = clock
        self._gateway_starts = 0
        self._shown_until = clock() + SHOW_SECONDS

    async def watch(self) -> None:
        """Scales until cancelled."""
        try:
            while True:
                self.scale(await self._demand.ask())
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            await self._demand.close()

    def scale(self, wanted: Mapping[str, int]) -> None:
        """Starts and stops workers. A model of which nothing is known keeps its own."""
        spec = self._platform.spec
        numbers = Roster.of(spec).numbers
        before = {model.name: numbers.get(model.name, ()) for model in spec.models}
        taken = {*self._platform.leaving_numbers, *(number for found in before.values() for number in found)}
        free = (number for number in itertools.count() if number not in taken)
        after = {name: self._numbers_of(found, wanted.get(name), free) for name, found in before.items()}
        changed = [name for name in after if after[name] != before[name]]
        models = [replace(model, worker_numbers=after[model.name]) for model in spec.models]
        if changed and self._platform.resize(models):
            for name in changed:
                _log.info("scales a model", extra={"model": name, "workers": len(after[name])})

    def _numbers_of(self, present: tuple[int, ...], wanted: int | None, free: Iterator[int]) -> tuple[int, ...]:
        count = self._bounds.clamp(len(present) if wanted is None else wanted)
        count = max(count, self._least_shown())
        if count <= len(present):
            return tuple(sorted(present)[:count])
        return (*present, *itertools.islice(free, count - len(present)))

    def _least_shown(self) -> int:
        """Returns 1 for a while after a gateway has started, else 0: it knows of a model what workers tell it."""
        starts, now = self._platform.gateway_starts, self._clock()
        if starts != self._gateway_starts:
            self._gateway_starts, self._shown_until = starts, now + SHOW_SECONDS
        return int(now < self._shown_until)
