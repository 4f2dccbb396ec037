"""Leases under which this scheduler leads models, one each. Workers refuse batches under a smaller fencing number than
the largest that they have seen."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from headrace.bus.bus import LEASES, Bus, StoreAway
from headrace.bus.lease import LeaseKind, LeaseTable
from headrace.errors import Unavailable
from headrace.scheduler.core import events
from headrace.scheduler.scheduler import Scheduler
from headrace.service_clients.scheduler import LEADER_DETAIL
from headrace.v1.events_pb2 import LeaseHeld

RENEW_SECONDS = 0.4
EXPIRY_SECONDS = 1.5
"""Seconds without renewal after which a lease may be taken over."""
CLAIM_SECONDS = 0.3
"""Longest wait for the store. Without an answer the scheduler leads the model without a lease, as it does while the
store is away."""
AWAY_SECONDS = 1.0
MAX_OTHERS = 100
"""Maximum number of models led by other schedulers whose leases are watched. Taking over any further one takes up to
EXPIRY_SECONDS longer."""
KIND = LeaseKind(LEASES, LeaseHeld, "scheduler_id", "model", lambda model: f"lease.{model.encode().hex()}")

_log = logging.getLogger(__name__)


class Leases:
    """Claims the lease of a model when it is first asked for, renews it, and gives it up when another scheduler took
    over."""

    def __init__(
        self, bus: Bus, scheduler: Scheduler, scheduler_id: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._bus = bus
        self._scheduler = scheduler
        self._clock = clock
        self._table = LeaseTable(bus, KIND, scheduler_id, EXPIRY_SECONDS, clock)
        self._claiming: dict[str, asyncio.Lock] = {}
        self._away_until = 0.0
        """Time before which the store is not asked again, because it did not answer."""

    def fence(self, model: str) -> int:
        """Returns the fencing number under which this scheduler leads a model. 0: it has no lease."""
        lease = self._table.known.get(model)
        return lease.fence if lease is not None and lease.holder == self._table.holder else 0

    def leads(self, model: str) -> bool:
        """Whether this scheduler may place requests of the model without claiming it first."""
        return self.fence(model) > 0 or not self._bus.connected or self._clock() < self._away_until

    async def lead(self, model: str) -> None:
        """Claims a model unless another scheduler leads it. Raises Unavailable, naming that one. Returns also when the
        store does not answer: workers refuse what they have no room for, from any sender."""
        async with self._claiming.setdefault(model, asyncio.Lock()):
            if self.leads(model):
                return
            try:
                async with asyncio.timeout(CLAIM_SECONDS):
                    await self._claim(model)
            except (TimeoutError, StoreAway):
                self._away_until = self._clock() + AWAY_SECONDS
                _log.info("the store of leases does not answer", extra={"model": model})

    async def keep_renewing(self) -> None:
        """Renews held leases and watches the others, until cancelled."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            for model in [model for model in self._scheduler.core.desks if self.fence(model)]:
                # A lease that could not be renewed is kept: either no scheduler can reach the store, or the next
                # renewal shows who took over.
                with contextlib.suppress(TimeoutError, Unavailable):
                    async with asyncio.timeout(CLAIM_SECONDS):
                        await self._renew(model)
            with contextlib.suppress(TimeoutError, Unavailable):
                async with asyncio.timeout(CLAIM_SECONDS):
                    await self.look_on()

    async def look_on(self) -> None:
        """Reads the leases of other schedulers, so as to know at once when one has expired. Raises StoreAway."""
        others = [model for model in self._scheduler.core.desks if not self.fence(model)]
        for model in others[:MAX_OTHERS]:
            await self._table.look(model)

    async def _claim(self, model: str) -> None:
        lease = await self._table.claim(model, lambda: self._scheduler.core.desk(model).fence)
        if lease is None:
            await self._table.look(model)
            raise Unavailable(f"another scheduler begins to lead {model}", stage="schedule")
        if lease.holder != self._table.holder:
            message = f"scheduler {lease.holder} leads {model}"
            raise Unavailable(message, stage="schedule", details={LEADER_DETAIL: lease.holder})
        _log.info("leads a model", extra={"model": model, "fence": lease.fence})

    async def _renew(self, model: str) -> None:
        if await self._table.renew(model):
            return
        found = await self._table.look(model)
        if not found.revision:
            await self._claim(model)  # The store lost its data.
        elif found.holder != self._table.holder:
            _log.warning("another scheduler leads now", extra={"model": model, "leader": found.holder})
            self._scheduler.feed(events.LeadLost(model))
