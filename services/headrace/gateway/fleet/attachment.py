"""The stream between this gateway and one worker: frames come in, cancellations go out."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence

from headrace.errors import HeadraceError, Unavailable
from headrace.errors.tree import WorkerLost
from headrace.gateway.fleet.commands import Cancellation, Command, Inquiry
from headrace.gateway.fleet.inboxes.inbox import Inbox
from headrace.gateway.fleet.inboxes.inboxes import Inboxes
from headrace.gateway.fleet.translation import to_attach_request, to_hello
from headrace.lifecycle import wait_at_most
from headrace.service_clients.worker import WorkerClient
from headrace.v1.worker_pb2 import AttachRequest, BatchMember, DispatchResponse, Frame

WATCH_INTERVAL = 0.2
INQUIRY_SECONDS = 1.0
"""Seconds without news of a request after which its worker is asked about it."""

_log = logging.getLogger(__name__)


class Attachment:
    """One connection to one incarnation of a worker. When it ends, the requests there are lost to this gateway.

    It ends when the stream breaks, when the worker sends nothing for `silence_seconds`, or when the worker holds
    requests of this gateway and its step counter stalls for `stall_seconds`. Time during which this process itself was
    stalled, and could receive nothing, does not count.
    """

    def __init__(
        self,
        worker_id: str,
        client: WorkerClient,
        gateway_id: str,
        inboxes: Inboxes,
        silence_seconds: float,
        stall_seconds: float,
    ) -> None:
        self.worker_id = worker_id
        self.epoch: int | None = None
        """Incarnation of the worker, once it has said hello."""
        self._client = client
        self._gateway_id = gateway_id
        self._inboxes = inboxes
        self._silence_seconds = silence_seconds
        self._stall_seconds = stall_seconds
        self._commands: asyncio.Queue[Command] = asyncio.Queue()
        self._greeted = asyncio.Event()
        self._greeted_at = 0.0
        self._over = False
        self._last_heard = self._last_progress = time.monotonic()
        self._step = -1

    @property
    def alive(self) -> bool:
        return self.epoch is not None and not self._over

    def leads_elsewhere(self, epoch: int, since: float) -> bool:
        """Whether this leads to an earlier incarnation of the worker than `epoch`, which was met after `since`, in
        monotonic seconds. Epochs come from clocks, which may have been set back, so their order proves nothing."""
        return self.epoch is not None and self.epoch != epoch and self._greeted_at < since

    async def dispatch(self, members: Sequence[BatchMember], timeout: float) -> DispatchResponse:
        """Hands a batch to the worker directly, without a scheduler. `timeout` in seconds. Raises HeadraceError."""
        return await self._client.dispatch(members, timeout)

    async def drain(self, patience: float, timeout: float) -> int:
        """Has the worker end; its requests move after `patience` seconds. Returns the number that it still runs. Raises
        HeadraceError."""
        return (await self._client.drain(patience, timeout)).open_request_count

    async def wait_until_greeted(self, timeout: float) -> bool:
        """Whether the worker answered the hello within `timeout` seconds."""
        await wait_at_most(self._greeted, timeout)
        return self.alive

    def cancel(self, request_id: str, attempt: int) -> None:
        """Tells the worker to drop a request."""
        self._commands.put_nowait(Cancellation(request_id, attempt))

    async def run(self, on_end: Callable[["Attachment"], None]) -> None:
        """Reads until the stream ends for any reason, then fails every inbox of this worker."""
        reader = asyncio.current_task()
        watcher = asyncio.create_task(self._watch(reader.cancel if reader else lambda: None), name="attach-watch")
        try:
            await self._read()
        except HeadraceError as error:
            _log.info("attachment ended", extra={"worker": self.worker_id, "error": error.message})
        finally:
            self._over = True
            self._greeted.set()
            watcher.cancel()
            for inbox in self._inboxes.of_worker(self.worker_id):
                inbox.fail(WorkerLost(f"worker {self.worker_id} was lost", stage="decode"))
            on_end(self)

    async def _read(self) -> None:
        async for response in self._client.attach(self._outgoing()):
            self._last_heard = time.monotonic()
            if response.WhichOneof("event") == "hello":
                self.epoch = response.hello.epoch
                self._greeted_at = self._last_heard
                self._greeted.set()
            else:
                self._take(response.frame)
        raise Unavailable("the worker closed the stream")

    def _take(self, frame: Frame) -> None:
        if frame.step != self._step:
            self._step = frame.step
            self._last_progress = self._last_heard
        for delta in frame.deltas:
            inbox = self._inboxes.find(delta)
            if inbox is not None:
                inbox.put(delta)
            elif not delta.finish_reason and not delta.HasField("error"):
                # The request has no reader any more. The worker is notified, so that it stops.
                self.cancel(delta.request_id, delta.attempt)

    async def _outgoing(self) -> AsyncIterator[AttachRequest]:
        yield to_hello(self._gateway_id)
        while True:
            yield to_attach_request(await self._commands.get())

    async def _watch(self, give_up: Callable[[], object]) -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(WATCH_INTERVAL)
            now = time.monotonic()
            self._forgive(now - before - WATCH_INTERVAL)
            waiting = self._inboxes.of_worker(self.worker_id)
            if not waiting:
                self._last_progress = now
            self._inquire([inbox for inbox in waiting if now - inbox.heard > INQUIRY_SECONDS])
            silent = now - self._last_heard > self._silence_seconds
            stalled = now - self._last_progress > self._stall_seconds
            if silent or stalled:
                _log.warning("worker is frozen", extra={"worker": self.worker_id, "silent": silent, "stalled": stalled})
                give_up()
                return

    def _inquire(self, quiet: Sequence[Inbox]) -> None:
        """Asks whether the worker still holds these: it may have dropped them together with an unread stream."""
        if not quiet:
            return
        for inbox in quiet:
            inbox.heard = time.monotonic()
        self._commands.put_nowait(Inquiry(tuple((inbox.request_id, inbox.attempt) for inbox in quiet)))

    def _forgive(self, late_seconds: float) -> None:
        """Moves the times of last contact forward by the time during which the watcher could not look."""
        if late_seconds > WATCH_INTERVAL:
            now = time.monotonic()
            self._last_heard = min(now, self._last_heard + late_seconds)
            self._last_progress = min(now, self._last_progress + late_seconds)
