"""The workers as the scheduler knows them: their last status, and what was sent to them since."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from headrace.v1.worker_pb2 import WorkerStatus

Clock = Callable[[], float]
FORGET_SECONDS = 600.0
"""A worker that has been silent for this long is not even remembered."""
STALL_SECONDS = 1.0
"""Between two notes on the bus, after which the table distrusts its own ears."""


@dataclass(slots=True)
class WorkerEntry:
    """One worker."""

    worker_id: str
    epoch: int
    version: int
    address: str
    model: str
    block_size: int
    credit_count: int
    """As it granted last."""
    open_count: int
    """Requests it held when it said so."""
    draining: bool
    last_heard: float
    """Monotonic seconds."""
    adapters: frozenset[str] = frozenset()
    """What it can add to its model."""
    vocabulary_size: int = 0
    """Its token ids are below this. 0: it did not say."""
    reserved_count: int = 0
    """Requests on their way to it, which its status does not count yet."""
    suspect: bool = False
    """A call to it failed and it has not been heard of since."""

    @property
    def free_count(self) -> int:
        return 0 if self.draining or self.suspect else max(0, self.credit_count - self.reserved_count)

    @property
    def idle(self) -> bool:
        return self.open_count == 0 and self.reserved_count == 0 and self.free_count > 0

    def has_adapter(self, name: str) -> bool:
        """It can run requests for this adapter; the empty name stands for none."""
        return not name or name in self.adapters


class WorkerTable:
    """Takes statuses in, answers who has room. Silence counts only while the bus could have told us otherwise."""

    def __init__(self, silence_seconds: float, clock: Clock = time.monotonic) -> None:
        self._silence_seconds = silence_seconds
        self._clock = clock
        self._entries: dict[str, WorkerEntry] = {}
        self._bus_back_at: float | None = None
        self._last_note: float | None = None
        self.changed = asyncio.Event()

    def observe(self, status: WorkerStatus) -> None:
        """Takes a status in, unless a newer one is known."""
        known = self._entries.get(status.worker_id)
        if known is None and status.draining:
            return  # It has said goodbye already.
        if known is not None and (status.epoch, status.version) <= (known.epoch, known.version):
            return
        self._forget_silent()
        same_life = known is not None and known.epoch == status.epoch
        self._entries[status.worker_id] = WorkerEntry(
            worker_id=status.worker_id,
            epoch=status.epoch,
            version=status.version,
            address=status.address,
            model=status.model_info.model,
            block_size=status.model_info.block_size,
            vocabulary_size=status.model_info.vocabulary_size,
            credit_count=status.credit_count,
            open_count=status.open_request_count,
            draining=status.draining,
            last_heard=self._clock(),
            adapters=frozenset(adapter.name for adapter in status.model_info.adapters),
            reserved_count=known.reserved_count if known is not None and same_life else 0,
        )
        self.changed.set()

    def remove(self, worker_id: str, epoch: int) -> None:
        entry = self._entries.get(worker_id)
        if entry is not None and entry.epoch <= epoch:
            del self._entries[worker_id]
            self.changed.set()

    def reserve(self, worker_id: str, count: int) -> None:
        """Requests are on their way."""
        self._entries[worker_id].reserved_count += count

    def release(self, worker_id: str, epoch: int, count: int) -> None:
        """They arrived, or did not: the worker's own status counts from here on."""
        entry = self._entries.get(worker_id)
        if entry is not None and entry.epoch == epoch:
            entry.reserved_count = max(0, entry.reserved_count - count)
            self.changed.set()

    def suspect(self, worker_id: str, epoch: int) -> None:
        """A call failed: nothing more goes there until it is heard of again."""
        entry = self._entries.get(worker_id)
        if entry is not None and entry.epoch == epoch:
            entry.suspect = True

    def note_bus(self, connected: bool) -> None:
        """Without the bus every worker is silent, and none is at fault. After it is back, each gets time to speak.

        To be called at least every second: a call that comes later shows that this process itself stood still, and
        heard nobody.
        """
        now = self._clock()
        late = self._last_note is not None and now - self._last_note > STALL_SECONDS
        self._last_note = now
        if not connected:
            self._bus_back_at = None
        elif self._bus_back_at is None or late:
            self._bus_back_at = now

    def serving(self, model: str) -> list[WorkerEntry]:
        """Workers of a model that are not known to be gone."""
        return [entry for entry in self._entries.values() if entry.model == model and not self._silent(entry)]

    def with_room(self, model: str) -> list[WorkerEntry]:
        return [entry for entry in self.serving(model) if entry.free_count > 0]

    def vocabulary_size(self, model: str) -> int:
        """Token ids of a model are below this. 0 while no worker has said it."""
        return max((entry.vocabulary_size for entry in self._entries.values() if entry.model == model), default=0)

    def silence_of(self, entry: WorkerEntry) -> float:
        return self._clock() - entry.last_heard

    @property
    def entries(self) -> list[WorkerEntry]:
        return list(self._entries.values())

    def _forget_silent(self) -> None:
        """Drops workers that nobody heard of for long: worker ids may be new ones after every start."""
        limit = self._clock() - FORGET_SECONDS
        for entry in [entry for entry in self._entries.values() if entry.last_heard < limit]:
            del self._entries[entry.worker_id]

    def _silent(self, entry: WorkerEntry) -> bool:
        if self._bus_back_at is None:
            return False
        return self._clock() - max(entry.last_heard, self._bus_back_at) > self._silence_seconds
