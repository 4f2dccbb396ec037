"""Status of the worker, for all watchers of its changes."""

import asyncio
import itertools
import math
import time
from collections.abc import AsyncGenerator, Callable

from headrace.engine.memory.heap import free_heap_bytes
from headrace.engine.memory.host_memory import resident_bytes
from headrace.engine.residency.resident_status import ResidentStatus
from headrace.lifecycle import wait_at_most
from headrace.worker.requests.runtime import Runtime
from headrace.worker.status.block_log import BlockLog
from headrace.worker.status.device_rates import DeviceRates
from headrace.worker.status.worker_status import Status

MIN_INTERVAL = 0.004
"""Seconds within which several changes are reported as one."""
MAX_INTERVAL = 0.2
"""Seconds after which watchers are notified even if nothing changed: more than four times a second, delays included."""
MEMORY_INTERVAL = 0.5


class StatusBoard:
    """Makes statuses of one runtime and wakes those who watch it."""

    def __init__(self, runtime: Runtime, worker_id: str, epoch: int, model: str, rates: DeviceRates) -> None:
        self._runtime = runtime
        self.worker_id = worker_id
        self.epoch = epoch
        self.model = model
        self.spec = runtime.spec
        self._rates = rates
        self._versions = itertools.count(1)
        self._watchers: set[asyncio.Event] = set()
        self._listeners: list[Callable[[], None]] = []
        self._closed = False
        self._measured = -math.inf
        self._memory = (0, 0)
        self.address = ""
        self.resident: Callable[[], ResidentStatus] = ResidentStatus
        """State of the model, which is always awake where there is only one."""
        self.blocks = BlockLog(worker_id, epoch, model)

    def advertise(self, address: str) -> None:
        """Sets the address at which others reach the worker."""
        self.address = address
        self.on_change()

    def listen(self, on_change: Callable[[], None]) -> None:
        """Registers `on_change`, which is called after every change."""
        self._listeners.append(on_change)

    def on_change(self) -> None:
        for listener in self._listeners:
            listener()
        for changed in self._watchers:
            changed.set()

    def close(self) -> None:
        """Ends every watch after one last status."""
        self._closed = True
        self.on_change()

    async def watch(self) -> AsyncGenerator[Status, None]:
        """Yields the status at once, after every change and at least every MAX_INTERVAL seconds, until closed.

        A slow reader misses what was in between: it always receives the newest.
        """
        changed = asyncio.Event()
        self._watchers.add(changed)
        try:
            while not self._closed:
                changed.clear()
                yield self.status()
                await asyncio.sleep(MIN_INTERVAL)
                await wait_at_most(changed, MAX_INTERVAL - MIN_INTERVAL)
            yield self.status()
        finally:
            self._watchers.discard(changed)

    def status(self) -> Status:
        """Returns the load now, with a version larger than any before."""
        runtime = self._runtime
        memory, free_heap = self._process_memory()
        return Status(
            worker_id=self.worker_id,
            epoch=self.epoch,
            version=next(self._versions),
            address=self.address,
            model=self.model,
            spec=self.spec,
            stats=runtime.stats,
            pace=runtime.pace,
            credit_count=runtime.credit_count,
            open_request_count=len(runtime.sessions),
            waiting_token_count=runtime.waiting_token_count,
            draining=runtime.draining,
            fence=runtime.fence,
            replaced_block_count=runtime.replaced_block_count,
            resident_bytes=memory,
            free_heap_bytes=free_heap,
            rates=self._rates,
            resident=self.resident(),
            exchanged=runtime.transfers.status,
        )

    def _process_memory(self) -> tuple[int, int]:
        """Measures resident bytes and free bytes of the heap, now and then only, because statuses are made for every
        batch."""
        now = time.monotonic()
        if now - self._measured > MEMORY_INTERVAL:
            self._measured, self._memory = now, (resident_bytes(), free_heap_bytes())
        return self._memory
