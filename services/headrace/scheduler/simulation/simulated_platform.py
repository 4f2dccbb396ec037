"""A platform in virtual time: the scheduler's core and workers, without processes, sockets or waiting."""

from array import array
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf

from headrace.engine.contract.request import Delta, EngineRequest, SamplingParams
from headrace.engine.contract.request import Urgency as EngineUrgency
from headrace.engine.engines.sim import SimConfig
from headrace.errors import InvalidRequest
from headrace.kv.block_hash import hash_blocks
from headrace.kv.held_prefix import HeldPrefix
from headrace.scheduler.core import decisions, events
from headrace.scheduler.core.core import SchedulingCore
from headrace.scheduler.core.decisions import Decision
from headrace.scheduler.core.events import Event
from headrace.scheduler.core.fleet.predictions import FirstToken
from headrace.scheduler.core.policy import Policy
from headrace.scheduler.core.queueing.ticket import Ticket
from headrace.scheduler.core.queueing.urgency import Urgency
from headrace.scheduler.simulation.clock import VirtualClock
from headrace.scheduler.simulation.outcome import Ending, Outcome
from headrace.scheduler.simulation.worker import SimulatedWorker

MODEL = "m"
TICK_SECONDS = 0.2
REPORT_SECONDS = 0.2
"""Seconds after which a worker reports even if nothing has changed."""
MAX_HELD_BLOCKS = 8192
"""Leading KV blocks of a prompt that are looked up, as the scheduler does (`prefixes.MAX_BLOCKS`)."""
_ENGINE_URGENCIES = {
    Urgency.REALTIME: EngineUrgency.REALTIME,
    Urgency.INTERACTIVE: EngineUrgency.INTERACTIVE,
    Urgency.DEFAULT: EngineUrgency.DEFAULT,
    Urgency.BATCH: EngineUrgency.BATCH,
}


class SimulatedPlatform:
    """Feeds the core what happens and does what it decides, as the shell of a scheduler does.

    Every request has one model, `MODEL`, and ends exactly once.
    """

    def __init__(self, policy: Policy | None = None, *, measures_pace: bool = True) -> None:
        """`measures_pace`: whether workers report rates as they measure them, which move with the traffic. Otherwise
        they report those of a full step."""
        self._measures_pace = measures_pace
        self.clock = VirtualClock()
        self.core = SchedulingCore(policy or Policy())
        self._queue = self.core.desk(MODEL).queue
        self.outcomes: dict[str, Outcome] = {}
        """Outcomes by attempt, in the order of submission."""
        self.workers: dict[str, SimulatedWorker] = {}
        self.retired: list[SimulatedWorker] = []
        """Workers that have left."""
        self.placements: list[float] = []
        """Times at which workers accepted requests."""
        self.itls = array("d")
        """Seconds between consecutive tokens of all requests."""
        self.first_tokens: list[FirstToken] = []
        """First tokens that came, beside their predictions."""
        self.max_waiting_count = 0
        """Longest queue so far."""
        self.on_reject: Callable[[Outcome], None] = lambda _outcome: None
        self._requests: dict[str, EngineRequest] = {}
        """Requests that have not ended, by attempt."""
        self._expected_count = 0
        """Requests that were handed in and have not ended, or not arrived yet."""
        self._events: deque[Event] = deque()
        self._feeding = False
        self._wake_time = inf
        self._tick()

    @property
    def now(self) -> float:
        """Virtual seconds since the start."""
        return self.clock.now

    def add_worker(self, name: str, config: SimConfig, price: float = 0.0) -> None:
        """Adds a worker. `price`: price of one hour."""
        worker = SimulatedWorker(
            name, MODEL, config, price, self.clock, self._on_step, measures_pace=self._measures_pace
        )
        self.workers[name] = worker
        self._keep_reporting(worker)

    def retire_worker(self, name: str) -> None:
        """Gives a worker no more requests. It leaves when its requests have ended."""
        self.workers[name].retire()
        self._feed(events.WorkerReported(self.workers[name].report(), answers=True))

    def submit(
        self,
        time: float,
        ticket: Ticket,
        prompt: Callable[[], tuple[int, ...]] = tuple,
        asked_at: float | None = None,
        output_token_count: int | None = None,
    ) -> None:
        """Plans the arrival of a ticket at the scheduler.

        `prompt` makes the token ids of the prompt when they are needed. Without any, its length is enough: it is taken
        to share nothing with others. `asked_at`: time at which the client asked, if it was earlier.
        `output_token_count`: tokens after which the output ends, which the scheduler does not know. None: as many as
        the ticket allows.
        """
        self._expected_count += 1
        asked = time if asked_at is None else asked_at
        count = ticket.max_token_count if output_token_count is None else output_token_count
        self.clock.at(time, lambda: self._submit(ticket, prompt(), asked, count))

    def run(self, until: float) -> None:
        """Lets time pass until `until`, in virtual seconds."""
        self.clock.run(until)

    def run_to_end(self) -> None:
        """Lets time pass until every request that was handed in has ended."""
        while self._expected_count:
            self.clock.advance()

    def _submit(self, ticket: Ticket, prompt_token_ids: tuple[int, ...], asked_at: float, output_count: int) -> None:
        if held := self._held_by_worker(prompt_token_ids):
            ticket = replace(ticket, held=held)
        outcome = self.outcomes[ticket.key] = Outcome(ticket, asked_at)
        request = EngineRequest(
            ticket.key,
            prompt_token_ids or (1,) * ticket.prompt_token_count,
            SamplingParams(max_tokens=output_count, temperature=0, seed=0, ignore_eos=True),
            cache_salt="" if prompt_token_ids else ticket.key,
            urgency=_ENGINE_URGENCIES[ticket.urgency],
        )
        try:
            for worker in self.workers.values():
                worker.check(request)
        except InvalidRequest:
            self._end(outcome, Ending.TOO_LONG)
            return
        self._requests[ticket.key] = request
        self.clock.at(ticket.deadline, lambda: self._expire(outcome))
        self._feed(events.Submitted(ticket))
        self.max_waiting_count = max(self.max_waiting_count, len(self._queue))

    def _held_by_worker(self, prompt_token_ids: Sequence[int]) -> dict[str, HeldPrefix]:
        """Returns the leading KV blocks of a prompt that each worker holds now, where there is a choice of workers. The
        cache service knows them a moment later."""
        if len(self.workers) < 2 or not prompt_token_ids:
            return {}
        size = min(worker.block_size for worker in self.workers.values())
        hashes = hash_blocks(prompt_token_ids[: MAX_HELD_BLOCKS * size], size, "")
        found = {name: worker.held_block_count(hashes) for name, worker in self.workers.items()}
        return {name: HeldPrefix(count) for name, count in found.items() if count}

    def _feed(self, event: Event) -> None:
        """Feeds the core an event and follows its decisions. Events that this causes are handled afterwards."""
        self._events.append(event)
        if self._feeding:
            return
        self._feeding = True
        while self._events:
            for decision in self.core.handle(self._events.popleft(), self.now):
                self._follow(decision)
        self._feeding = False

    def _follow(self, decision: Decision) -> None:
        match decision:
            case decisions.Dispatch():
                self._dispatch(self.workers[decision.worker_id], [member.ticket for member in decision.members])
            case decisions.Reject(ticket, reason, retry_after):
                outcome = self.outcomes[ticket.key]
                outcome.rejection, outcome.retry_after = reason, retry_after
                self._end(outcome, Ending.REFUSED)
                self.on_reject(outcome)
            case decisions.Expire(ticket):
                self._end(self.outcomes[ticket.key], Ending.QUEUE_TIMEOUT)
            case decisions.Compare(first_token=first_token):
                self.first_tokens.append(first_token)
            case decisions.WakeAt(time):
                self._wake_at(time)

    def _dispatch(self, worker: SimulatedWorker, tickets: Sequence[Ticket]) -> None:
        worker.take([self._requests[ticket.key] for ticket in tickets])
        self._feed(events.WorkerReported(worker.report(), answers=True))
        for ticket in tickets:
            outcome = self.outcomes[ticket.key]
            outcome.placed_at, outcome.worker = self.now, worker.name
            self.placements.append(self.now)
            self._feed(events.Accepted(ticket, worker.name))

    def _on_step(self, worker: SimulatedWorker, deltas: Sequence[Delta]) -> None:
        for delta in deltas:
            outcome = self.outcomes[delta.request_id]
            if outcome.first_token_at is None:
                outcome.first_token_at = self.now
                outcome.cached_token_count = delta.cached_token_count or 0
            else:
                self.itls.append(self.now - outcome.last_token_at)
            outcome.last_token_at = self.now
            outcome.token_count += len(delta.token_ids)
            if delta.finish_reason is not None:
                self._end(outcome, Ending.FINISHED)
        self._feed(events.WorkerReported(worker.report(), answers=True))

    def _expire(self, outcome: Outcome) -> None:
        """Ends a request that runs at its deadline. One that waits is left to the core."""
        if outcome.ending is None and outcome.worker:
            self.workers[outcome.worker].cancel(outcome.ticket.key)
            self._end(outcome, Ending.TIMEOUT)

    def _end(self, outcome: Outcome, ending: Ending) -> None:
        outcome.end(ending, self.now)
        self._requests.pop(outcome.ticket.key, None)
        self._expected_count -= 1
        if outcome.placed_at is not None:
            self._feed(events.Settled(MODEL, outcome.ticket.request_id, outcome.token_count, outcome.prompt_seconds))

    def _keep_reporting(self, worker: SimulatedWorker) -> None:
        if worker.has_retired:
            del self.workers[worker.name]
            self.retired.append(worker)
            self._feed(events.WorkerLeft(MODEL, worker.name, worker.report().epoch))
            return
        self._feed(events.WorkerReported(worker.report(), answers=True))
        self.clock.at(self.now + REPORT_SECONDS, lambda: self._keep_reporting(worker))

    def _tick(self) -> None:
        self._feed(events.Tick())
        self.clock.at(self.now + TICK_SECONDS, self._tick)

    def _wake_at(self, time: float) -> None:
        """Plans a tick, unless one is planned for earlier."""
        if time < self._wake_time:
            self._wake_time = time
            self.clock.at(time, lambda: self._wake(time))

    def _wake(self, time: float) -> None:
        if time == self._wake_time:
            self._wake_time = inf
            self._feed(events.Tick())
