"""Models that were served a moment ago, and whether all existing models are known yet."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Protocol

from headrace.domain.deadline import Deadline
from headrace.gateway.fleet.model_facts import ModelFacts
from headrace.lifecycle import wait_at_most

REMEMBER_SECONDS = 600.0
"""Seconds for which a model is expected back after the last news of its last worker."""
SETTLE_SECONDS = 2.0
"""Seconds after reaching the bus within which every running worker has sent a heartbeat: they do twice a second."""
MAX_MODELS = 1000


class BusLink(Protocol):
    """Connection over which a gateway receives heartbeats of workers: see GatewaySubscriber."""

    @property
    def connected(self) -> bool:
        """Whether heartbeats of a running worker would arrive."""

    @property
    def connected_at(self) -> float | None:
        """Time at which the present connection, or else the last one, began, in monotonic seconds. None: there never
        was one."""


class ModelMemory:
    """Remembers models beyond their workers: a worker that restarts, or a bus that is away, does not make a model
    unknown.

    Without a link no heartbeats can arrive, so everything counts as known.
    """

    def __init__(
        self, link: BusLink | None = None, *, keeps: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`keeps`: whether models are never forgotten."""
        self._link = link
        self._keeps = keeps
        self._clock = clock
        self._models: OrderedDict[str, tuple[ModelFacts, float]] = OrderedDict()
        self._noted = asyncio.Event()

    @property
    def names(self) -> list[str]:
        return [name for name in self._models if self.recall(name) is not None]

    @property
    def settled(self) -> bool:
        """Whether it is certain that an unknown model does not exist."""
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

    def kept(self) -> dict[str, ModelFacts]:
        """Returns all models where they are never forgotten."""
        return {name: info for name, (info, _) in self._models.items()} if self._keeps else {}

    def recall(self, name: str) -> ModelFacts | None:
        info, last = self._models.get(name, (None, 0.0))
        if self._keeps or (self._link is not None and not self._link.connected):
            return info
        return info if self._clock() - last < REMEMBER_SECONDS else None

    async def wait_for(self, name: str) -> ModelFacts | None:
        """Returns the model as soon as it is known. Returns None once it is certain that there is no such model, or
        when the bus could not be reached in time."""
        deadline = Deadline.after(SETTLE_SECONDS)
        while (info := self.recall(name)) is None and not self.settled and not deadline.expired:
            self._noted.clear()
            await wait_at_most(self._noted, deadline.remaining)
        return info
