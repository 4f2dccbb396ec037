"""Shell around the core: feeds it events and the time, and carries out its decisions."""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from prometheus_client import Counter, Gauge, Histogram

from headrace.domain.ids import trace_attributes
from headrace.errors import HeadraceError, Overloaded, QueueTimeout, Unavailable
from headrace.lifecycle import cancel_and_wait
from headrace.scheduler.core import decisions, events
from headrace.scheduler.core.core import SchedulingCore
from headrace.scheduler.core.events import Event
from headrace.scheduler.core.journal import Journal
from headrace.scheduler.core.member import Member
from headrace.scheduler.core.queueing.queue_status import QueueStatus
from headrace.scheduler.core.queueing.ticket import Ticket
from headrace.scheduler.core.queueing.waiter import Order, Place, Waiter
from headrace.scheduler.translation import DispatchAnswer, to_answer, to_error, to_member
from headrace.service_clients.scheduler import WORKER_DETAIL
from headrace.service_clients.worker import WorkerClient
from headrace.telemetry.traces import is_recorded, record_span

TICK_SECONDS = 0.2

BATCH_SIZE = Histogram("headrace_batch_size", "Requests per dispatch", ["model"], buckets=(1, 2, 4, 8, 16, 32, 64, 128))
QUEUE_TIME = Histogram("headrace_queue_time_seconds", "From submit to a place", ["model", "class"])
WANTED_WORKERS = Gauge("headrace_wanted_workers", "Workers that a model needs, by the scheduler's measure", ["model"])
PREDICTION_ERROR = Histogram(
    "headrace_first_token_prediction_error",
    "Error of a predicted time from dispatch to first token, as a share of what it was",
    ["model"],
    buckets=(0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5),
)
PREEMPTIONS = Counter("headrace_scheduler_preemptions", "Sequences paused for more urgent requests")

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Waiting:
    order: Order
    waiter: Waiter
    since: float = field(default_factory=time.time)
    """Time at which the wait began. Unix seconds."""
    sent_at: float = 0.0
    """Time of the last dispatch, in seconds of the scheduler's clock."""

    def record(self, ticket: Ticket, worker_id: str) -> None:
        """Records the wait of a ticket as a span of the request's trace. `worker_id`: worker that took it, if any."""
        if not is_recorded(self.order.traceparent):
            return
        named = trace_attributes(ticket.request_id, ticket.attempt)
        attributes = {"gen_ai.request.model": ticket.model, "headrace.worker": worker_id, **named}
        record_span("schedule", self.order.traceparent, self.since, time.time(), attributes)


class Scheduler:
    """Runs on the event loop alone. `on_doubt` receives the addresses of workers that did not answer a dispatch."""

    def __init__(
        self,
        core: SchedulingCore,
        journal: Journal,
        client_of: Callable[[str], WorkerClient],
        dispatch_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.core = core
        self.journal = journal
        self.clock = clock
        self.on_doubt: Callable[[str], None] = lambda _address: None
        self.fence_of: Callable[[str], int] = lambda _model: 0
        self._client_of = client_of
        self._dispatch_seconds = dispatch_seconds
        self._waiting: dict[str, _Waiting] = {}
        self._events: deque[Event] = deque()
        self._feeding = False
        self._timer: asyncio.Handle | None = None
        self._wake_time = math.inf
        self._failure: Exception | None = None
        self._posted: dict[tuple[str, int], list[decisions.Dispatch]] = {}
        """Batches to send at the end of this turn of the loop, by worker and epoch."""
        self._sending: set[asyncio.Task[None]] = set()

    def submit(self, ticket: Ticket, order: Order, waiter: Waiter) -> None:
        """Asks for a place. The waiter is notified exactly once, unless the ticket is withdrawn first."""
        replaced = self._waiting.pop(ticket.key, None)
        if replaced is not None:
            self.feed(events.Cancelled(ticket.model, ticket.key))
        self._waiting[ticket.key] = _Waiting(order, waiter)
        self.feed(events.Submitted(ticket))

    def withdraw(self, model: str, key: str, waiter: Waiter) -> None:
        """Withdraws a ticket. An unknown one is ignored: it has its answer."""
        waiting = self._waiting.get(key)
        if waiting is not None and waiting.waiter is waiter:
            del self._waiting[key]
            self.feed(events.Cancelled(model, key))

    def feed(self, event: Event) -> None:
        """Feeds the core an event and carries out its decisions. Events that this causes are handled afterwards, in
        order."""
        self._events.append(event)
        if self._feeding:
            return
        self._feeding = True
        try:
            while self._events:
                event, now = self._events.popleft(), self.clock()
                decided = self.core.handle(event, now)
                self.journal.record(event, now, decided)
                for decision in decided:
                    self._perform(decision, now)
        except Exception as error:
            # Decisions that were not carried out are lost, so the process must not continue. See `keep_ticking`.
            self._failure = error
            raise
        finally:
            self._feeding = False

    def queues(self) -> list[QueueStatus]:
        """Returns the status of every model's queue."""
        now = self.clock()
        return [
            QueueStatus(
                model,
                len(desk.queue),
                desk.window_seconds(),
                desk.expected_wait(now),
                self.fence_of(model),
                desk.demand.wanted,
            )
            for model, desk in self.core.desks.items()
        ]

    async def keep_ticking(self) -> None:
        """Sends the core ticks until cancelled. Raises the error of a core that failed."""
        while self._failure is None:
            self.feed(events.Tick())
            for model, desk in self.core.desks.items():
                if desk.demand.wanted is not None:
                    WANTED_WORKERS.labels(model=model).set(desk.demand.wanted)
            await asyncio.sleep(TICK_SECONDS)
        raise self._failure

    async def close(self) -> None:
        """Cancels the timer and the dispatches under way."""
        if self._timer is not None:
            self._timer.cancel()
        await cancel_and_wait(self._sending)

    def _perform(self, decision: decisions.Decision, now: float) -> None:
        match decision:
            case decisions.Dispatch():
                self._post(decision)
            case decisions.Preempt(count=count):
                PREEMPTIONS.inc(count)
            case decisions.Reject(ticket):
                self._refuse(ticket, to_error(decision))
            case decisions.Expire(ticket):
                self._refuse(ticket, QueueTimeout(stage="queue"))
            case decisions.Compare(model, _, first_token):
                PREDICTION_ERROR.labels(model=model).observe(first_token.error)
            case decisions.WakeAt(wake_time):
                self._wake_at(wake_time, now)

    def _post(self, batch: decisions.Dispatch) -> None:
        """Sends a batch at the end of this turn of the loop, as one call with all others that go to the worker then."""
        if not self._posted:
            asyncio.get_running_loop().call_soon(self._flush)
        self._posted.setdefault((batch.worker_id, batch.epoch), []).append(batch)

    def _flush(self) -> None:
        posted, self._posted = self._posted, {}
        for (worker_id, _epoch), batches in posted.items():
            whole = replace(batches[-1], members=tuple(member for batch in batches for member in batch.members))
            task = asyncio.create_task(self._dispatch(whole), name=f"dispatch-{worker_id}")
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    def _wake_at(self, wake_time: float, now: float) -> None:
        """Sets the timer, unless it already fires earlier."""
        if wake_time < self._wake_time:
            if self._timer is not None:
                self._timer.cancel()
            self._wake_time = wake_time
            self._timer = asyncio.get_running_loop().call_later(max(0.0, wake_time - now), self._wake)

    def _wake(self) -> None:
        self._wake_time = math.inf
        self.feed(events.Tick())

    async def _dispatch(self, batch: decisions.Dispatch) -> None:
        """Dispatches a batch. After a failed call the worker may or may not have it, so every waiter gets an error that
        makes it retry; the new attempt voids this one."""
        members = [member for member in batch.members if member.ticket.key in self._waiting]
        for member in batch.members:
            if member not in members:
                self.feed(events.Failed(member.ticket, batch.worker_id))
        refusals, epoch = list[HeadraceError | None](), batch.epoch
        try:
            if members:
                answer = await self._call(batch, members)
                refusals, epoch = answer.refusals, answer.report.epoch or batch.epoch
        except Exception as error:  # noqa: BLE001 - whatever it is, each member has a waiter
            known = isinstance(error, HeadraceError)
            _log.warning("dispatch failed", extra={"worker": batch.worker_id}, exc_info=None if known else error)
            self.feed(events.WorkerLost(members[0].ticket.model, batch.worker_id, batch.epoch))
            self.on_doubt(batch.address)
        finally:
            for member, refusal in zip(members, refusals, strict=False):
                self._conclude(member.ticket, replace(batch, epoch=epoch), refusal)
            for member in members[len(refusals) :]:
                self.feed(events.Failed(member.ticket, batch.worker_id))
                self._refuse(member.ticket, _not_taken(batch.worker_id))

    async def _call(self, batch: decisions.Dispatch, members: list[Member]) -> DispatchAnswer:
        now, model = self.clock(), members[0].ticket.model
        requests = [to_member(member, self._waiting[member.ticket.key].order, now) for member in members]
        for member in members:
            self._waiting[member.ticket.key].sent_at = now
        client, fence = self._client_of(batch.address), self.fence_of(model)
        answer = to_answer(await client.dispatch(requests, self._dispatch_seconds, fence))
        BATCH_SIZE.labels(model=model).observe(len(members))
        if answer.report.worker_id == batch.worker_id:
            # Fed before the outcomes, because it already counts the members that the worker took.
            self.feed(events.WorkerReported(answer.report, answers=True))
        return answer

    def _conclude(self, ticket: Ticket, batch: decisions.Dispatch, refusal: HeadraceError | None) -> None:
        if refusal is None:
            waited = self.clock() - ticket.arrival
            QUEUE_TIME.labels(ticket.model, ticket.urgency.name.lower()).observe(waited)
            self.feed(events.Accepted(ticket, batch.worker_id))
            if (waiting := self._waiting.pop(ticket.key, None)) is not None:
                _log.debug("placed", extra={"sequence": ticket.request_id, "worker": batch.worker_id})
                waiting.record(ticket, batch.worker_id)
                queued = waiting.sent_at - ticket.arrival
                place = Place(batch.worker_id, batch.address, batch.epoch, queued)
                waiting.waiter.placed(ticket, place)
        elif isinstance(refusal, Overloaded) and ticket.key in self._waiting:
            self.feed(events.Refused(ticket, batch.worker_id))
        else:
            self.feed(events.Failed(ticket, batch.worker_id))
            self._refuse(ticket, refusal)

    def _refuse(self, ticket: Ticket, error: HeadraceError) -> None:
        if (waiting := self._waiting.pop(ticket.key, None)) is not None:
            waiting.record(ticket, "")
            waiting.waiter.refused(ticket, error)


def _not_taken(worker_id: str) -> Unavailable:
    """Makes the error that names the worker, so that the next attempt goes elsewhere if it can."""
    message = f"worker {worker_id} did not take the request"
    return Unavailable(message, stage="dispatch", details={WORKER_DETAIL: worker_id})
