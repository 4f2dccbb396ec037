"""Leases under which this scheduler leads models, one each, in the key-value store of NATS, with fencing numbers.

A worker refuses batches under a smaller number than the largest it has seen, so that a scheduler which was frozen and
does not know yet that another has taken over does no harm (Kleppmann, How to do distributed locking, 2016).
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from headrace.bus.bus import Bus, StoreAway, Versioned
from headrace.errors import Unavailable
from headrace.scheduler.core import events
from headrace.scheduler.scheduler import Scheduler
from headrace.v1.events_pb2 import LeaseHeld

RENEW_SECONDS = 0.4
EXPIRY_SECONDS = 1.5
"""Seconds without renewal after which a lease may be taken over."""
CLAIM_SECONDS = 0.3
"""Longest wait for the store. Without an answer the scheduler leads the model without a lease, as it does while the
store is away."""
AWAY_SECONDS = 1.0
MAX_OTHERS = 100
"""Most models led by other schedulers whose leases are watched. Taking over any further one takes up to EXPIRY_SECONDS
longer."""
LEADER_DETAIL = "leader"

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Lease:
    holder: str
    fence: int
    revision: int
    seen: float
    """Time at which this revision was first seen. Monotonic seconds."""


class Leases:
    """Claims the lease of a model when it is first asked for, renews it, and gives it up when another scheduler took
    over."""

    def __init__(
        self, bus: Bus, scheduler: Scheduler, scheduler_id: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._bus = bus
        self._scheduler = scheduler
        self._scheduler_id = scheduler_id
        self._clock = clock
        self._leases: dict[str, _Lease] = {}
        self._claiming: dict[str, asyncio.Lock] = {}
        self._away_until = 0.0
        """Time before which the store is not asked again, because it did not answer."""

    def fence(self, model: str) -> int:
        """Returns the fencing number under which this scheduler leads a model. 0: it has no lease."""
        lease = self._leases.get(model)
        return lease.fence if lease is not None and self._holds(lease) else 0

    def leads(self, model: str) -> bool:
        """Whether this scheduler may place requests of the model without claiming it first."""
        return self.fence(model) > 0 or not self._bus.connected or self._clock() < self._away_until

    async def lead(self, model: str) -> None:
        """Claims a model unless another scheduler leads it. Raises Unavailable, naming that one. Returns also when the
        store does not answer: workers refuse what they have no room for, whoever sends it."""
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
            for model in [model for model, lease in self._leases.items() if self._holds(lease)]:
                # A lease that could not be renewed is kept: either nobody else can reach the store too, or the next
                # renewal shows who took over.
                with contextlib.suppress(TimeoutError, Unavailable):
                    async with asyncio.timeout(CLAIM_SECONDS):
                        await self._renew(model, self._leases[model])
            with contextlib.suppress(TimeoutError, Unavailable):
                async with asyncio.timeout(CLAIM_SECONDS):
                    await self.look_on()

    async def look_on(self) -> None:
        """Reads the leases of other schedulers, so as to know at once when one has expired. Raises StoreAway."""
        others = [model for model in self._scheduler.core.desks if not self.fence(model)]
        for model in others[:MAX_OTHERS]:
            await self._look(model)

    async def _claim(self, model: str) -> None:
        lease = await self._look(model)
        if lease is not None and not self._holds(lease) and self._clock() - lease.seen <= EXPIRY_SECONDS:
            message = f"scheduler {lease.holder} leads {model}"
            raise Unavailable(message, stage="schedule", details={LEADER_DETAIL: lease.holder})
        known = 0 if lease is None else lease.fence
        fence = max(known, self._scheduler.core.desk(model).fence) + 1
        revision = await self._write(model, fence, 0 if lease is None else lease.revision)
        if revision is None:
            await self._look(model)
            raise Unavailable(f"another scheduler begins to lead {model}", stage="schedule")
        self._leases[model] = _Lease(self._scheduler_id, fence, revision, self._clock())
        _log.info("leads a model", extra={"model": model, "fence": fence})

    async def _renew(self, model: str, lease: _Lease) -> None:
        revision = await self._write(model, lease.fence, lease.revision)
        if revision is not None:
            lease.revision, lease.seen = revision, self._clock()
            return
        found = await self._look(model)
        if found is None:
            await self._claim(model)  # The store lost its data.
        elif found.holder != self._scheduler_id:
            _log.warning("another scheduler leads now", extra={"model": model, "leader": found.holder})
            self._scheduler.feed(events.LeadLost(model))

    async def _look(self, model: str) -> _Lease | None:
        """Reads a lease, and remembers when its revision was first seen."""
        found: Versioned[LeaseHeld] | None = await self._bus.read(_key(model), LeaseHeld)
        if found is None:
            self._leases.pop(model, None)
            return None
        known = self._leases.get(model)
        if known is None or known.revision != found.revision:
            held = found.message
            self._leases[model] = _Lease(held.scheduler_id, held.fence, found.revision, self._clock())
        return self._leases[model]

    async def _write(self, model: str, fence: int, revision: int) -> int | None:
        held = LeaseHeld(scheduler_id=self._scheduler_id, model=model, fence=fence)
        return await self._bus.swap(_key(model), held, revision)

    def _holds(self, lease: _Lease) -> bool:
        return lease.holder == self._scheduler_id


def _key(model: str) -> str:
    return f"lease.{model.encode().hex()}"
