"""One model of a worker process, with all that makes it a worker to others."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from headrace.domain.deadline import Deadline
from headrace.engine.contract.engine import Engine
from headrace.engine.kv.block_exchange import BlockExchange, exchange_of
from headrace.engine.residency.resident_status import ResidentStatus
from headrace.lifecycle import channels_to
from headrace.rpc.member_address import joined
from headrace.worker.config import WorkerSettings
from headrace.worker.requests.runtime import Runtime
from headrace.worker.servicer import WorkerServicer
from headrace.worker.status.device_rates import device_rates
from headrace.worker.status.status_board import StatusBoard
from headrace.worker.stepping.watchdog import Patience, Watchdog, exit_hung
from headrace.worker.transfer.kept.kept_blocks import KeptBlocks
from headrace.worker.transfer.stored.shared_store import SharedStore
from headrace.worker.transfer.worker_role import WorkerRole

_log = logging.getLogger(__name__)


class HostedModel:
    """Owner of a runtime, its status and its watchdog. Runs on the event loop, but for `moved`."""

    def __init__(
        self,
        settings: WorkerSettings,
        model: str,
        worker_id: str,
        engine: Engine,
        epoch: int,
        end: Callable[[float], None],
        pin: Callable[[str, bool], None],
    ) -> None:
        """`end` and `pin`: see WorkerServicer."""
        rates = device_rates(settings, engine.spec)
        self.model = model
        self.worker_id = worker_id
        self.runtime = Runtime(engine, model, settings.attach_seconds, rates.hourly_price)
        exchange = exchange_of(engine)
        kept = _open_kept(exchange, settings.kv_folder, settings.kv_folder_bytes)
        self._store = _open_store(exchange, settings)
        open_channel = channels_to("worker", settings)
        self.runtime.transfers.open(exchange, WorkerRole(settings.role), open_channel, kept, self._store)
        self.board = StatusBoard(self.runtime, worker_id, epoch, model, rates)
        self.servicer = WorkerServicer(self.runtime, self.board, worker_id, epoch, end, pin)
        patience = Patience(settings.step_seconds, settings.first_step_seconds)
        self.watchdog = Watchdog(self.runtime.thread, self.runtime.spec, patience, exit_hung)
        self._first_step_seconds = settings.first_step_seconds
        self._loop = asyncio.get_running_loop()

    def follow(self, resident: Callable[[], ResidentStatus]) -> None:
        """Shows the state of the model, as `resident` tells it, in the status, with what the engine's thread knows."""
        thread = self.runtime.thread

        def told() -> ResidentStatus:
            status = resident()
            return replace(status, out_of_memory_count=status.out_of_memory_count + thread.out_of_memory_count)

        self.board.resident = told

    async def prove(self, *, is_proved: bool) -> None:
        """Makes the model generate something, unless it has. Raises HeadraceError."""
        if not is_proved:
            await self.runtime.prove(self._first_step_seconds)

    def moved(self) -> None:
        """Notifies all watchers that the model moved. From any thread."""
        self.runtime.thread.nudge()
        self._loop.call_soon_threadsafe(self.board.on_change)

    def advertise(self, address: str, *, is_member: bool) -> None:
        """Sets the address of the process. `is_member`: whether the model is one of several there."""
        self.board.advertise(joined(address, self.worker_id if is_member else ""))

    async def close(self) -> None:
        """Stops the runtime, and closes the store."""
        self.runtime.stop()
        if self._store is not None:
            await self._store.close()

    async def drain(self, patience: float, deadline: Deadline) -> None:
        """Lets running requests end for `patience` seconds, and then move to other workers until the deadline."""
        await self.servicer.drain(patience, deadline)


def _open_kept(exchange: BlockExchange | None, folder: Path | None, max_bytes: int) -> KeptBlocks | None:
    """Opens the KV blocks of a folder. None, with a warning where a folder is given: they cannot be kept."""
    if folder is None:
        return None
    if exchange is None:
        _log.warning("this model's KV blocks cannot be copied, so they are not kept", extra={"folder": str(folder)})
        return None
    kept = KeptBlocks.open(folder.expanduser(), exchange.layout, exchange.block_bytes, max_bytes)
    if kept is not None:
        _log.info("KV blocks are kept", extra={"folder": str(folder), "found": len(kept)})
    return kept


def _open_store(exchange: BlockExchange | None, settings: WorkerSettings) -> SharedStore | None:
    """Opens the links to the store that workers share. None, with a warning where there is to be one: the KV blocks of
    this model cannot be copied."""
    addresses = settings.kv_store_addresses
    if not addresses:
        return None
    if exchange is None:
        _log.warning("this model's KV blocks cannot be copied, so they are not shared", extra={"store": addresses})
        return None
    return SharedStore(addresses, channels_to("cache", settings), exchange.layout)
