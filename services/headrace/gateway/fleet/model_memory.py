"""The models that there were a moment ago, and whether it is known yet which there are."""

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Protocol

from headrace.gateway.request.model_facts import ModelFacts
from headrace.rpc.deadline import Deadline

REMEMBER_SECONDS = 600.0
"""Seconds for which a model is expected back after its last worker was heard of."""
SETTLE_SECONDS = 2.0
"""Seconds after reaching the bus in which every worker that is there has been heard of: they speak twice a second."""
MAX_MODELS = 1000


class BusLink(Protocol):
    """The connection over which a gateway hears of workers: see GatewaySubscriber."""

    @property
    def connected(self) -> bool:
        """Whether a worker that is there would be heard of."""

    @property
    def connected_at(self) -> float | None:
        """Time since which that is so, or was last, in monotonic seconds. None: it never was."""


class ModelMemory:
    """Outlives the workers: one that restarts, or a bus that is away, does not make a model unknown.

    Without a link nobody can be heard of, so that everything is taken to be known.
    """

    def __init__(self, link: BusLink | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._link = link
        self._clock = clock
        self._models: OrderedDict[str, tuple[ModelFacts, float]] = OrderedDict()
        self._noted = asyncio.Event()

    @property
    def names(self) -> list[str]:
        return [name for name in self._models if self.recall(name) is not None]

    @property
    def settled(self) -> bool:
        """Whether a model that is not known does not exist."""
        if self._link is None:
            return True
        since = self._link.connected_at
        return self._link.connected and since is not None and self._clock() - since >= SETTLE_SECONDS

    def note(self, models: Mapping[str, ModelFacts]) -> None:
        """Takes in the models that are being served now."""
        now = self._clock()
        for name, info in models.items():
            self._models[name] = (info, now)
            self._models.move_to_end(name)
        while len(self._models) > MAX_MODELS:
            self._models.popitem(last=False)
        self._noted.set()

    def recall(self, name: str) -> ModelFacts | None:
        info, last = self._models.get(name, (None, 0.0))
        if self._link is not None and not self._link.connected:
            return info
        return info if self._clock() - last < REMEMBER_SECONDS else None

    async def wait_for(self, name: str) -> ModelFacts | None:
        """The model, as soon as it is known. None once it is known that there is no such model, or when the bus could
        not be asked in time."""
        deadline = Deadline.after(SETTLE_SECONDS)
        while (info := self.recall(name)) is None and not self.settled and not deadline.expired:
            self._noted.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._noted.wait(), deadline.remaining)
        return info
