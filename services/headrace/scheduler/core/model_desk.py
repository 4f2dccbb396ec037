"""The desk of one model: its queue, its workers, and the decisions that follow when either changes."""

from collections.abc import Iterator

from headrace.scheduler.core.decisions import Decision, Dispatch, Preempt, Reason, Reject, WakeAt
from headrace.scheduler.core.demand.demand import Demand
from headrace.scheduler.core.demand.measured_load import measure_load
from headrace.scheduler.core.fleet.fleet import Fleet
from headrace.scheduler.core.fleet.placement import Choice, choose
from headrace.scheduler.core.fleet.predictions import Predictions
from headrace.scheduler.core.fleet.prefill import choose_prefill
from headrace.scheduler.core.fleet.worker import Worker, WorkerReport
from headrace.scheduler.core.foresight.fleet_pace import measure_pace
from headrace.scheduler.core.foresight.lateness import Expectation, excess_seconds, is_in_time
from headrace.scheduler.core.foresight.output_lengths import OutputLengths
from headrace.scheduler.core.foresight.queue_drain import QueueDrain
from headrace.scheduler.core.member import Member
from headrace.scheduler.core.policy import Policy
from headrace.scheduler.core.queueing.accounts import Accounts
from headrace.scheduler.core.queueing.queue import ModelQueue
from headrace.scheduler.core.queueing.ticket import Lane, Ticket
from headrace.scheduler.core.queueing.urgency import Urgency
from headrace.scheduler.core.queueing.window import BatchWindow
from headrace.scheduler.core.queueing.work import Work

URGENT_SECONDS = 60.0
"""Seconds after a realtime request for which room is kept free for the next."""
RETRY_SECONDS = 1.0
"""Seconds after which to try again when nothing can be predicted."""
ASSUMED_PROMPT_TOKENS = 512.0
"""Tokens of a prompt assumed while none has waited."""


class ModelDesk:
    """Decides for one model. Methods that yield decisions update the desk as they are read, so read them to the end."""

    def __init__(self, policy: Policy) -> None:
        self.accounts = Accounts()
        self.queue = ModelQueue(self.accounts, policy.starvation_seconds)
        self.fleet = Fleet()
        self.demand = Demand(policy.scaling)
        self.predictions = Predictions()
        self.lengths = OutputLengths()
        self._policy = policy
        self._window = BatchWindow(policy.max_window_seconds, policy.max_batch_size)
        self._drain = QueueDrain()
        self._usual = Work(ASSUMED_PROMPT_TOKENS, self.lengths.mean)
        """Mean work of the requests that waited last."""
        self._last_report: WorkerReport | None = None
        self._last_heard: float | None = None
        """Time at which any worker last served the model."""
        self._last_urgent = float("-inf")
        self.fence = 0
        """Largest fencing number that any of its workers has seen."""

    @property
    def last_report(self) -> WorkerReport | None:
        """The newest report of any of its workers."""
        return self._last_report

    def window_seconds(self) -> float:
        """Returns the seconds that a batch waits to fill at the moment."""
        return self._window.seconds(len(self.queue), self.fleet.has_idle())

    def expected_wait(self, now: float) -> float:
        """Predicts the seconds that a request which arrives now waits for a place."""
        if not len(self.queue):
            return 0.0
        return self._drain.wait_seconds(self.queue.backlog.whole(), now)

    def submit(self, ticket: Ticket, now: float) -> Iterator[Decision]:
        """Queues a ticket, or rejects it or a less urgent one where there is no room."""
        self.demand.note_arrival(self._missing(ticket), now)
        if ticket.urgency is Urgency.REALTIME:
            self._last_urgent = now
        if self._last_heard is None:
            self._last_heard = now
        if not len(self.queue):
            self._drain.forget_promises()
        if (excess := self._excess(ticket, None, now)) > 0:
            yield Reject(ticket, Reason.LATE, self._drain.appointment(self._work_of(ticket), excess, now))
            return
        if not ticket.resumes and self._is_full(ticket):
            last = self.queue.least_urgent()
            refused, reason = (last, Reason.DISPLACED) if ticket.rank < last.rank else (ticket, Reason.QUEUE_FULL)
            if refused is last:
                self.queue.remove(last)
            yield Reject(refused, reason, self._drain.appointment(self._work_of(refused), 0.0, now))
            if refused is ticket:
                return
        self._window.observe_arrival(now)
        self.enqueue(ticket)

    def enqueue(self, ticket: Ticket) -> None:
        """Inserts a ticket into the queue, with the work that is predicted of it."""
        self.queue.enqueue(ticket, self._work_of(ticket))

    def cancel(self, key: str) -> None:
        """Takes a ticket out, if it still waits."""
        if (ticket := self.queue.get(key)) is not None:
            self.queue.remove(ticket)

    def take_report(self, report: WorkerReport, answers: bool, now: float) -> None:
        """Updates a worker by its report."""
        self._last_report, self._last_heard = report, now
        self.fence = max(self.fence, report.fence)
        self.fleet.take_report(report, answers, now)
        if self._drain.pace is None:
            self._drain.pace = measure_pace(self.fleet, self._usual, now)

    def dismiss(self) -> Iterator[Decision]:
        """Rejects all waiting tickets, because another scheduler leads the model."""
        for ticket in self.queue:
            self.queue.remove(ticket)
            yield Reject(ticket, Reason.NOT_LEADING, 0.0)

    def arrive(self, ticket: Ticket, worker_id: str) -> None:
        """Notes that a ticket sent to a worker arrived, or never will."""
        worker = self.fleet.workers.get(worker_id)
        if worker is not None and ticket.key in worker.sent:
            worker.arrive(ticket.key)
            self.fleet.add_load(-1)
            self.fleet.reindex(worker)

    def take_back(self, ticket: Ticket) -> None:
        """Refunds a ticket that was not served."""
        self.accounts.refund(ticket)
        self.queue.reorder(ticket.tenant)

    def settle(self, request_id: str, output_token_count: int, now: float) -> None:
        """Charges the tenant for the tokens that a request really used."""
        if (charge := self.accounts.settle(request_id, output_token_count)) is not None:
            ticket = charge.ticket
            self.lengths.note(ticket.tenant, ticket.max_token_count, output_token_count)
            done = Work(charge.work.prompt_tokens, output_token_count)
            self._drain.note_end(done, len(self.queue), now)
            self.queue.reorder(ticket.tenant)

    def serve(self, now: float) -> Iterator[Decision]:
        """Places every ticket that can be placed."""
        if not len(self.queue):
            return
        ready = self._ready_at(now)
        if ready > now:
            yield WakeAt(ready)
            return
        placed: dict[Worker, list[Member]] = {}
        blocked: set[Lane] = set()
        while (ticket := self.queue.next(blocked, now)) is not None:
            choice = self._choice(ticket, now)
            if choice is not None and (excess := self._excess(ticket, choice, now)) > 0:
                yield Reject(ticket, Reason.LATE, self._drain.appointment(self.queue.remove(ticket), excess, now))
            elif choice is not None:
                prefill = choose_prefill(ticket, choice.worker, self.fleet, self._policy.transfer, now)
                placed.setdefault(choice.worker, []).append(Member(ticket, prefill, choice.candidates))
                if not prefill.worker_id:
                    self.predictions.note(ticket, choice.candidates[0])
                yield from self._mark_sent(ticket, choice.worker)
            elif self._lacks_adapter(ticket):
                self.queue.remove(ticket)
                yield Reject(ticket, Reason.NO_ADAPTER, RETRY_SECONDS)
            else:
                blocked.add(ticket.lane)
        for worker, members in placed.items():
            for start in range(0, len(members), self._policy.max_batch_size):
                batch = tuple(members[start : start + self._policy.max_batch_size])
                yield Dispatch(worker.worker_id, worker.report.epoch, worker.report.address, batch)

    def tick(self, now: float) -> Iterator[Decision]:
        """Rejects tickets that waited long enough without a worker. Time before they arrived does not count."""
        self.fleet.choose_reserved()
        self.fleet.keep_adapters(self.queue.adapters)
        if count := len(self.queue):
            self._usual = self.queue.backlog.whole().times(1 / count)
        self._drain.pace = measure_pace(self.fleet, self._usual, now)
        if self.demand.is_due(now):
            load = measure_load(self.fleet, len(self.queue), self.queue.token_count, now)
            self.demand.look(load, self.lengths.mean, now)
        if self.fleet.look_around(now) or self._last_heard is None:
            self._last_heard = now
        if now - self._last_heard <= self._policy.no_worker_seconds:
            return
        for ticket in self.queue:
            waited = now - max(self._last_heard, ticket.arrival)
            # A client already reads the output of a resumed request: it waits until its deadline.
            if not ticket.resumes and waited > self._policy.no_worker_seconds:
                self.queue.remove(ticket)
                yield Reject(ticket, Reason.NO_WORKER, RETRY_SECONDS)

    def _choice(self, ticket: Ticket, now: float) -> Choice | None:
        """Chooses a worker for a ticket that waits."""
        output_tokens = self.queue.backlog.work_of(ticket).output_tokens
        spares, token_limit = self._spares(ticket, now), self._policy.max_batch_token_count
        return choose(ticket, output_tokens, self.fleet, token_limit, spares, now)

    def _work_of(self, ticket: Ticket) -> Work:
        """Predicts the work of a ticket."""
        output = self.lengths.expected(ticket.tenant, ticket.max_token_count)
        return Work(self._missing(ticket), output.mean)

    def _excess(self, ticket: Ticket, choice: Choice | None, now: float) -> float:
        """Predicts the seconds by which a ticket would be late, if its class is refused for that: on the worker that
        was chosen, or after what waits before it, as long as none is."""
        pace, terms = self._drain.pace, self._policy.refusal
        if pace is None or not terms.concern(ticket):
            return 0.0
        is_full, prompt_tokens = len(self.queue) > 0, self._missing(ticket)
        idle = pace.least_first_token_seconds(prompt_tokens)
        if choice is not None:
            first = choice.candidates[0].first_token_seconds
        else:
            first = idle + self._drain.wait_seconds(self.queue.backlog.before(ticket, self._work_of(ticket)), now)
        if is_in_time(ticket, first, pace.least_rest_seconds(ticket.max_token_count, is_full), terms, now):
            return 0.0  # For all that it asks for, so that its real length need not be predicted.
        if any(worker.is_young for worker in self.fleet.workers.values()):
            return 0.0  # Assumptions may place a request, and are no reason to refuse one.
        output = self.lengths.expected(ticket.tenant, ticket.max_token_count)
        rest = pace.least_rest_seconds(output.low, is_full)
        return excess_seconds(ticket, Expectation(first, rest, idle), terms, now)

    def _missing(self, ticket: Ticket) -> int:
        """Counts the tokens of a prompt that no worker has."""
        block_size = self._last_report.block_size if self._last_report else 0
        held = max((held.count for held in ticket.held.values()), default=0)
        return max(1, ticket.prompt_token_count - held * block_size)

    def _mark_sent(self, ticket: Ticket, worker: Worker) -> Iterator[Decision]:
        """Counts a ticket as in flight to a worker, and yields Preempt if a sequence pauses there for it."""
        if worker.pauses_for(ticket):
            yield Preempt(worker.worker_id, 1)
        self.queue.serve(ticket)
        worker.send(ticket)
        self.fleet.add_load(1)
        self.fleet.reindex(worker)

    def _ready_at(self, now: float) -> float:
        """Returns the time at which the batch should go: now, where nothing is gained by waiting."""
        full = (
            len(self.queue) >= self._policy.max_batch_size
            or self.queue.token_count >= self._policy.max_batch_token_count
        )
        if full or self.queue.has_urgent or self.fleet.has_idle():
            return now
        return self.queue.oldest_arrival() + self._window.seconds(len(self.queue), False)

    def _is_full(self, ticket: Ticket) -> bool:
        tokens = self.queue.token_count + ticket.prompt_token_count
        full = len(self.queue) >= self._policy.max_waiting_count or tokens > self._policy.max_waiting_token_count
        return full and len(self.queue) > 0

    def _spares(self, ticket: Ticket, now: float) -> bool:
        return ticket.rank > Urgency.REALTIME and now - self._last_urgent < URGENT_SECONDS

    def _lacks_adapter(self, ticket: Ticket) -> bool:
        return bool(ticket.adapter and len(self.fleet)) and not self.fleet.has_adapter(ticket.adapter)
