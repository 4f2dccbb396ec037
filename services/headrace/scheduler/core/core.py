"""Scheduling without I/O: takes events in, gives decisions out."""

import heapq
import itertools
from collections.abc import Iterator, Mapping

from headrace.scheduler.core import events
from headrace.scheduler.core.decisions import Compare, Decision, Expire, WakeAt
from headrace.scheduler.core.events import Event
from headrace.scheduler.core.model_desk import ModelDesk
from headrace.scheduler.core.policy import Policy
from headrace.scheduler.core.queueing.ticket import Ticket

STALL_SECONDS = 1.0
"""Seconds between two events after which this process is taken to have stood still: ticks come five times a second."""
SPARE_DEADLINES = 1024


class SchedulingCore:
    """Decides for all models. The same events at the same times give the same decisions.

    Time is given with every event, in seconds of a monotonic clock. Every operation costs O(log n) of tickets and
    workers, but for Tick, which looks at every worker.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._desks: dict[str, ModelDesk] = {}
        self._deadlines: list[tuple[float, int, Ticket]] = []
        self._most_deadlines = SPARE_DEADLINES
        """Number of entries in `_deadlines` at which those of tickets that left are dropped."""
        self._numbers = itertools.count()
        self._last_time: float | None = None

    @property
    def desks(self) -> Mapping[str, ModelDesk]:
        """Desks by model."""
        return self._desks

    def desk(self, model: str) -> ModelDesk:
        """Returns the desk of a model, which is made when it is first needed."""
        if model not in self._desks:
            self._desks[model] = ModelDesk(self._policy)
        return self._desks[model]

    def handle(self, event: Event, now: float) -> list[Decision]:
        """Handles one event and returns the decisions that follow from it."""
        self._forgive_own_absence(now)
        decisions = list(self._expire(now))
        match event:
            case events.Submitted(ticket):
                decisions += self._submit(ticket, now)
            case events.Cancelled(model, key):
                self.desk(model).cancel(key)
            case events.WorkerReported(report, answers):
                self.desk(report.model).take_report(report, answers, now)
                decisions += self.desk(report.model).serve(now)
            case events.WorkerLost(model, worker_id, epoch):
                self.desk(model).fleet.suspect(worker_id, epoch)
            case events.WorkerLeft(model, worker_id, epoch):
                self.desk(model).fleet.remove(worker_id, epoch)
            case events.Accepted(ticket, worker_id):
                self.desk(ticket.model).arrive(ticket, worker_id)
                decisions += self.desk(ticket.model).serve(now)
            case events.Refused(ticket, worker_id):
                decisions += self._put_back(ticket, worker_id, now)
            case events.Failed(ticket, worker_id):
                self.desk(ticket.model).arrive(ticket, worker_id)
                self.desk(ticket.model).take_back(ticket)
            case events.Settled(model, request_id, output_token_count, first_token_seconds):
                self.desk(model).settle(request_id, output_token_count, now)
                first_token = self.desk(model).predictions.settle(request_id, first_token_seconds)
                decisions += [] if first_token is None else [Compare(model, request_id, first_token)]
            case events.LeadLost() | events.LeaderWanted():
                decisions += self._follow(event, now)
            case events.Tick():
                decisions += self._tick(now)
        return decisions

    def _follow(self, event: events.LeadLost | events.LeaderWanted, now: float) -> Iterator[Decision]:
        """Handles what another scheduler that leads a model does."""
        match event:
            case events.LeadLost(model):
                yield from self.desk(model).dismiss()
            case events.LeaderWanted(model, wanted_count):
                self.desk(model).demand.adopt(wanted_count, now)

    def _submit(self, ticket: Ticket, now: float) -> Iterator[Decision]:
        if ticket.deadline <= now:
            yield Expire(ticket)
            return
        desk = self.desk(ticket.model)
        yield from desk.submit(ticket, now)
        if desk.queue.get(ticket.key) is ticket:
            yield from self._await_deadline(ticket)
            yield from desk.serve(now)

    def _put_back(self, ticket: Ticket, worker_id: str, now: float) -> Iterator[Decision]:
        desk = self.desk(ticket.model)
        desk.arrive(ticket, worker_id)
        desk.take_back(ticket)
        if ticket.deadline <= now:
            yield Expire(ticket)
        else:
            desk.enqueue(ticket)
            yield from self._await_deadline(ticket)
            yield from desk.serve(now)

    def _tick(self, now: float) -> Iterator[Decision]:
        for desk in self._desks.values():
            yield from desk.tick(now)
            yield from desk.serve(now)

    def _await_deadline(self, ticket: Ticket) -> Iterator[Decision]:
        heapq.heappush(self._deadlines, (ticket.deadline, next(self._numbers), ticket))
        if len(self._deadlines) > self._most_deadlines:
            self._deadlines = [entry for entry in self._deadlines if self._waits(entry[2])]
            heapq.heapify(self._deadlines)
            self._most_deadlines = 2 * len(self._deadlines) + SPARE_DEADLINES
        yield WakeAt(self._deadlines[0][0])

    def _expire(self, now: float) -> Iterator[Decision]:
        while self._deadlines and self._deadlines[0][0] <= now:
            ticket = heapq.heappop(self._deadlines)[2]
            if self._waits(ticket):
                self._desks[ticket.model].queue.remove(ticket)
                yield Expire(ticket)

    def _waits(self, ticket: Ticket) -> bool:
        return self._desks[ticket.model].queue.get(ticket.key) is ticket

    def _forgive_own_absence(self, now: float) -> None:
        if self._last_time is not None and now - self._last_time > STALL_SECONDS:
            for desk in self._desks.values():
                desk.fleet.forgive_silence(now)
        self._last_time = now
