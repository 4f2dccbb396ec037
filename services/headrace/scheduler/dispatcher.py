"""The loop of one model: wait for requests, wait for room, wait for company, send the batch."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence

import grpc
from prometheus_client import Histogram

from headrace.clients.cache import CacheClient
from headrace.clients.scheduler import WORKER_DETAIL
from headrace.clients.worker import GrpcWorkerClient, WorkerClient
from headrace.engine.block_hash import hash_blocks
from headrace.errors import HeadraceError, Overloaded, Unavailable
from headrace.errors.status import from_status
from headrace.rpc.channel import open_channel
from headrace.scheduler.batch_window import BatchWindow
from headrace.scheduler.config import SchedulerSettings
from headrace.scheduler.model_queue import ModelQueue, Pending
from headrace.scheduler.placement import place
from headrace.scheduler.worker_table import WorkerEntry, WorkerTable
from headrace.v1.scheduler_pb2 import SubmitResponse
from headrace.v1.worker_pb2 import BatchMember, DispatchResponse

ROOM_PATIENCE = 0.25
"""Seconds after which the loop looks again for room even if nothing changed: silence makes no event."""
PREFIX_LOOKUP_SECONDS = 0.02

BATCH_SIZE = Histogram("headrace_batch_size", "Requests per dispatch", ["model"], buckets=(1, 2, 4, 8, 16, 32, 64, 128))
QUEUE_TIME = Histogram("headrace_queue_time_seconds", "From submit to dispatch", ["model"])

_log = logging.getLogger(__name__)


class WorkerChannels:
    """One client per worker address. Keeps as many as there were addresses lately, closes the rest."""

    def __init__(self, limit: int = 256) -> None:
        self._limit = limit
        self._channels: dict[str, grpc.aio.Channel] = {}

    def client(self, address: str) -> WorkerClient:
        channel = self._channels.pop(address, None) or open_channel(address)
        self._channels[address] = channel
        return GrpcWorkerClient(channel)

    async def trim(self) -> None:
        while len(self._channels) > self._limit:
            await self._channels.pop(next(iter(self._channels))).close()

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()


class Dispatcher:
    """Serves the queue of one model."""

    def __init__(
        self,
        model: str,
        settings: SchedulerSettings,
        table: WorkerTable,
        client_of: Callable[[str], WorkerClient],
        cache: CacheClient,
    ) -> None:
        self.queue = ModelQueue()
        self.window = BatchWindow(settings.max_window_seconds, settings.max_batch_size)
        self._model = model
        self._settings = settings
        self._table = table
        self._client_of = client_of
        self._cache = cache
        self._last_worker_seen = time.monotonic()
        self._sending: set[asyncio.Task[None]] = set()

    def submit(self, pending: Pending) -> None:
        self.window.observe_arrival(pending.arrival)
        self.queue.add(pending)

    @property
    def window_seconds(self) -> float:
        return self.window.seconds(len(self.queue), self._worker_idle())

    async def run(self) -> None:
        """Dispatches until cancelled."""
        while True:
            # Every turn suspends, whatever it finds: one that did not would stop all models and the process with them.
            await asyncio.sleep(0)
            await self.queue.arrived.wait()
            if not await self._wait_for_room():
                continue
            await self._wait_for_company()
            await self._send_batch()

    async def _wait_for_room(self) -> bool:
        if self._table.with_room(self._model):
            self._last_worker_seen = time.monotonic()
            return True
        if self._table.serving(self._model):
            self._last_worker_seen = time.monotonic()
        else:
            self._refuse_overdue()
        await self._wait_for_change()
        return False

    async def _wait_for_change(self) -> None:
        self._table.changed.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._table.changed.wait(), ROOM_PATIENCE)

    async def _wait_for_company(self) -> None:
        oldest = self.queue.oldest_arrival
        if oldest is None:
            return
        delay = oldest + self.window_seconds - time.monotonic()
        if delay > 0:
            await asyncio.sleep(delay)

    async def _send_batch(self) -> None:
        workers = self._table.with_room(self._model)
        room = sum(entry.free_count for entry in workers)
        limit = min(room, self._settings.max_batch_size)
        batch = self.queue.take(limit, self._settings.max_batch_token_count)
        prefixes = await self._lookup_prefixes(batch, workers)
        # The lookup took time, in which workers may have gone or said that they are full, and callers may have left.
        workers = self._table.with_room(self._model)
        batch = [pending for pending in batch if not pending.placement.done()]
        placed, left = place(batch, workers, prefixes)
        for pending in left:
            self._put_back(pending)
        for entry in workers:
            if members := placed.get(entry.worker_id):
                self._table.reserve(entry.worker_id, len(members))
                task = asyncio.create_task(self._send(entry, members))
                self._sending.add(task)
                task.add_done_callback(self._sending.discard)
        if left and not placed:
            # There is room, but not with the adapters that are asked for.
            await self._wait_for_change()

    def _put_back(self, pending: Pending) -> None:
        """The wait goes on, unless there are workers and none has the adapter that is asked for."""
        adapter, workers = pending.request.generation.adapter, self._table.serving(self._model)
        if workers and not any(entry.has_adapter(adapter) for entry in workers):
            message = f"no worker of {self._model} has the adapter {adapter} at the moment"
            _fail(pending, Unavailable(message, stage="schedule", retry_after=1))
        else:
            self.queue.add(pending)

    async def _lookup_prefixes(
        self, batch: Sequence[Pending], workers: Sequence[WorkerEntry]
    ) -> dict[str, dict[str, int]]:
        """Who holds the prompts' prefixes. Asked only when there is a choice and workers keep any; no answer means no
        preference."""
        if len(workers) < 2 or not workers[0].block_size:
            return {}
        found: dict[str, dict[str, int]] = {}
        with contextlib.suppress(HeadraceError):
            for pending in batch:
                generation = pending.request.generation
                hashes = hash_blocks(
                    tuple(generation.prompt_token_ids), workers[0].block_size, generation.cache_salt, generation.adapter
                )
                if hashes:
                    found[generation.request_id] = await self._cache.lookup_prefix(
                        self._model, hashes, PREFIX_LOOKUP_SECONDS
                    )
        return found

    async def _send(self, entry: WorkerEntry, members: list[Pending]) -> None:
        """Hands a batch over. A call that fails leaves it open whether the worker has it, so each member's caller is
        told to try again, which makes a new attempt that voids this one."""
        waiting: list[Pending] = []
        try:
            response = await self._client_of(entry.address).dispatch(
                [_to_member(pending) for pending in members], self._settings.dispatch_seconds
            )
            waiting = self._take_outcomes(entry, members, response)
        except Exception as error:  # noqa: BLE001 - whatever it is, the members' callers wait
            known = isinstance(error, HeadraceError)
            _log.warning("dispatch failed", extra={"worker": entry.worker_id}, exc_info=None if known else error)
            self._table.suspect(entry.worker_id, entry.epoch)
        finally:
            self._table.release(entry.worker_id, entry.epoch, len(members))
            for pending in members:
                if pending not in waiting:
                    _fail(pending, _not_taken(entry))

    def _take_outcomes(self, entry: WorkerEntry, members: list[Pending], response: DispatchResponse) -> list[Pending]:
        """Tells each caller what became of its request. Returns those that wait on, the worker having had no room."""
        now = time.monotonic()
        self._table.observe(response.status)
        BATCH_SIZE.labels(model=self._model).observe(len(members))
        waiting: list[Pending] = []
        for pending, outcome in zip(members, response.outcomes, strict=True):
            QUEUE_TIME.labels(model=self._model).observe(now - pending.arrival)
            _log.debug("placed", extra={"sequence": pending.request.generation.request_id, "worker": entry.worker_id})
            if outcome.code == 0:
                _settle(pending, entry)
            elif isinstance(refusal := from_status(outcome), Overloaded):
                waiting.append(pending)
                self.queue.add(pending)
            else:
                _fail(pending, refusal)
        return waiting

    def _refuse_overdue(self) -> None:
        """Ends the wait of those who waited long enough without a worker. Time before they came is not theirs."""
        now = time.monotonic()
        for pending in self.queue.members:
            if pending.resumes:
                continue  # It is read by somebody: it waits as long as its deadline allows.
            if now - max(self._last_worker_seen, pending.arrival) > self._settings.no_worker_seconds:
                message = f"no worker serves {self._model} at the moment"
                _fail(pending, Unavailable(message, stage="schedule", retry_after=1))
        if not len(self.queue):
            self.queue.take(0, 0)

    def _worker_idle(self) -> bool:
        return any(entry.idle for entry in self._table.serving(self._model))


def _to_member(pending: Pending) -> BatchMember:
    member = BatchMember(generation=pending.request.generation)
    member.remaining_duration.FromNanoseconds(int(pending.deadline.remaining * 1e9))
    return member


def _not_taken(entry: WorkerEntry) -> Unavailable:
    """Names the worker, so that the next attempt goes elsewhere if it can."""
    message = f"worker {entry.worker_id} did not take the request"
    return Unavailable(message, stage="dispatch", details={WORKER_DETAIL: entry.worker_id})


def _settle(pending: Pending, entry: WorkerEntry) -> None:
    if not pending.placement.done():
        pending.placement.set_result(
            SubmitResponse(worker_id=entry.worker_id, worker_address=entry.address, worker_epoch=entry.epoch)
        )


def _fail(pending: Pending, error: HeadraceError) -> None:
    if not pending.placement.done():
        pending.placement.set_exception(error)
