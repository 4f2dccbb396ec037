"""Drain of a worker process, on a stop signal or on a call."""

import asyncio
from collections.abc import Iterable

from headrace.domain.deadline import Deadline
from headrace.lifecycle import Background
from headrace.worker.hosting.hosted_model import HostedModel

STAY_SHARE = 2 / 3
"""Share of the time to stop in which running requests may end where they are. In the rest they move."""


class ProcessDrain:
    """Drains all models of the process."""

    def __init__(self, drain_seconds: float, background: Background) -> None:
        """`drain_seconds`: time that requests have to move."""
        self.over = asyncio.Event()
        """Event that is set when the process has nothing to do any more."""
        self._models: list[HostedModel] = []
        self._drain_seconds = drain_seconds
        self._background = background

    def include(self, models: Iterable[HostedModel]) -> None:
        """Adds models of the process."""
        self._models.extend(models)

    async def drain(self, deadline: Deadline) -> None:
        """Lets running requests end, or move, until the deadline."""
        await self._drain(deadline.remaining * STAY_SHARE, deadline)

    def begin(self, patience: float) -> None:
        """Drains, and then ends the process. Running requests move after `patience` seconds, or those of a later call
        if they are over sooner."""
        self._background.start(self._drain_and_end(patience), "drain")

    async def _drain_and_end(self, patience: float) -> None:
        await self._drain(patience, Deadline.after(patience + self._drain_seconds))
        self.over.set()

    async def _drain(self, patience: float, deadline: Deadline) -> None:
        await asyncio.gather(*(model.drain(patience, deadline) for model in self._models))
