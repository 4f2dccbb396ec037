"""Runs the batches that no other gateway runs."""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from functools import partial

from headrace.errors import Unavailable
from headrace.gateway.batches.batch_leases import RENEW_SECONDS, BatchLeases
from headrace.gateway.batches.batch_run import BatchRun, BatchWaits
from headrace.gateway.batches.lines.line_caller import LineCaller
from headrace.gateway.batches.lines.result_log import last_fence
from headrace.gateway.batches.storage.batch_record import BatchRecord, BatchStatus
from headrace.gateway.batches.storage.batch_store import LeaseLost
from headrace.gateway.batches.storage.disk import on_disk
from headrace.gateway.batches.storage.shared_folder import SharedFolder
from headrace.gateway.config import GatewaySettings
from headrace.lifecycle.cancel_and_wait import cancel_and_wait

MAX_BATCHES, MAX_OF_TENANT = 32, 24
"""Maximum number of batches that one gateway runs at once, in all and of one tenant."""
CLEAN_SECONDS = 600.0
"""Seconds between two removals of what has expired."""
PAUSE_SECONDS = 10.0
"""Seconds for which a batch is left alone whose files could not be read or written."""

_log = logging.getLogger(__name__)


class BatchRunner:
    """Looks for batches, claims them, and runs them until they end or another gateway does."""

    def __init__(
        self, folder: SharedFolder | None, leases: BatchLeases, caller: LineCaller, settings: GatewaySettings
    ) -> None:
        """`folder`: None where there are no batches."""
        self._folder = folder
        self._leases = leases
        self._caller = caller
        self._settings = settings
        self._running: dict[str, tuple[str, asyncio.Task[None]]] = {}
        """Tenants and tasks of the batches that run here."""
        self._left_alone: dict[str, float] = {}
        """Times until which batches are not tried, in monotonic seconds."""
        self._cleaned = 0.0
        self._closed = False
        self._is_waiting = False
        """Whether the absence of the folder or of NATS was logged."""

    async def watch(self) -> None:
        """Renews leases, and looks for batches to run, until cancelled."""
        while self._folder is not None and not self._closed:
            try:
                await self._look(self._folder)
                self._is_waiting = False
            except (OSError, Unavailable) as error:
                if not self._is_waiting:
                    _log.warning("batches wait: their folder or NATS is away", extra={"error": repr(error)})
                self._is_waiting = True
            except Exception:  # noqa: BLE001 - other batches continue
                _log.exception("unexpected failure while looking for batches")
            await asyncio.sleep(RENEW_SECONDS)

    async def close(self) -> None:
        """Gives up the batches that run here, so that another gateway can continue at once."""
        self._closed = True
        running, self._running = self._running, {}
        await cancel_and_wait([task for _, task in running.values()])
        for batch_id in running:
            with contextlib.suppress(Unavailable):
                await self._leases.release(batch_id)

    async def _look(self, folder: SharedFolder) -> None:
        await self._renew()
        await on_disk(folder.space.measure)
        found = await on_disk(folder.batches.open_batches)
        self._leases.forget_others({batch.id for batch in found} | self._running.keys())
        for batch in self._in_turn(found):
            if len(self._running) >= MAX_BATCHES:
                break
            if sum(tenant == batch.tenant for tenant, _ in self._running.values()) < MAX_OF_TENANT:
                await self._try(folder, batch)
        if time.monotonic() - self._cleaned > CLEAN_SECONDS:
            self._cleaned = time.monotonic()
            await on_disk(folder.files.remove_expired)
            await on_disk(folder.batches.remove_older, self._settings.file_seconds)

    async def _renew(self) -> None:
        for batch_id, (_, task) in list(self._running.items()):
            if not await self._leases.renew(batch_id):
                _log.warning("another gateway runs a batch now", extra={"batch_id": batch_id})
                task.cancel()

    def _in_turn(self, found: list[BatchRecord]) -> list[BatchRecord]:
        """Returns the batches that might run here, those of tenants of which fewest run first."""
        now, counts = time.monotonic(), Counter(tenant for tenant, _ in self._running.values())
        ranked = []
        for batch in found:
            is_wanted = self._left_alone.get(batch.id, 0.0) <= now or batch.status is BatchStatus.CANCELLING
            if batch.id not in self._running and is_wanted:
                ranked.append((counts[batch.tenant], batch.id, batch))
                counts[batch.tenant] += 1
        return [batch for _, _, batch in sorted(ranked, key=lambda entry: entry[:2])]

    async def _try(self, folder: SharedFolder, batch: BatchRecord) -> None:
        """Runs a batch here, if no other gateway does."""
        self._left_alone.pop(batch.id, None)
        own = folder.batches.folder(batch.tenant, batch.id)
        fence = await self._leases.claim(batch.id, max(batch.fence, await on_disk(last_fence, own)))
        if fence is None:
            return
        # Read again under the lease: it may have ended since it was listed.
        batch = await on_disk(folder.batches.get, batch.tenant, batch.id)
        if batch.status.is_final or self._closed:
            await self._leases.release(batch.id)
            return
        _log.info("runs a batch", extra={"batch_id": batch.id, "fence": fence})
        run = BatchRun(batch, folder, self._caller, self._settings, partial(self._leases.holds, batch.id))
        task = asyncio.create_task(self._run(batch.id, run, fence), name=f"batch-{batch.id}")
        self._running[batch.id] = batch.tenant, task

    async def _run(self, batch_id: str, run: BatchRun, fence: int) -> None:
        try:
            await run.run(fence)
        except BatchWaits as wait:
            self._left_alone[batch_id] = time.monotonic() + wait.seconds
        except LeaseLost:
            _log.warning("the lease of a batch ended", extra={"batch_id": batch_id})
        except Exception:  # noqa: BLE001 - it is tried again, here or elsewhere
            self._left_alone[batch_id] = time.monotonic() + PAUSE_SECONDS
            _log.exception("a batch could not be run: it is tried again", extra={"batch_id": batch_id})
        finally:
            if self._running.pop(batch_id, None) is not None:
                with contextlib.suppress(Unavailable):
                    await self._leases.release(batch_id)
