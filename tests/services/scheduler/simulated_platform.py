"""A platform in virtual time: the scheduler's core and sim engines, without processes, sockets or waiting."""

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.contract.request import Urgency as EngineUrgency
from headrace.engine.engines.sim import SimConfig, SimEngine
from headrace.scheduler.core import decisions, events
from headrace.scheduler.core.core import SchedulingCore
from headrace.scheduler.core.decisions import Decision, Reason
from headrace.scheduler.core.events import Event
from headrace.scheduler.core.fleet.worker import WorkerReport
from headrace.scheduler.core.policy import Policy
from headrace.scheduler.core.queueing.ticket import Ticket
from headrace.scheduler.core.queueing.urgency import Urgency

MODEL = "m"
TICK_SECONDS = 0.2
REPORT_SECONDS = 0.25
_ENGINE_URGENCIES = {
    Urgency.REALTIME: EngineUrgency.REALTIME,
    Urgency.INTERACTIVE: EngineUrgency.INTERACTIVE,
    Urgency.DEFAULT: EngineUrgency.DEFAULT,
    Urgency.BATCH: EngineUrgency.BATCH,
}


@dataclass
class Outcome:
    """Outcome of one ticket. Times in virtual seconds."""

    ticket: Ticket
    placed_at: float | None = None
    worker: str = ""
    first_token_at: float | None = None
    finished_at: float | None = None
    token_count: int = 0
    rejection: Reason | None = None
    retry_after: float = 0.0
    expired: bool = False

    @property
    def ttft(self) -> float:
        assert self.first_token_at is not None
        return self.first_token_at - self.ticket.arrival


class SimulatedWorker:
    """A sim engine whose steps take virtual time, reported as a worker reports."""

    def __init__(self, platform: "SimulatedPlatform", name: str, config: SimConfig, price: float) -> None:
        self._platform = platform
        self.name = name
        self._config = config
        self._price = price
        self._now = 0.0
        self._engine = SimEngine(config, lambda: self._now, self._pass_time)
        self._version = 0
        self._stepping = False
        self.held: dict[str, Ticket] = {}

    def take(self, tickets: Sequence[Ticket]) -> None:
        for ticket in tickets:
            tokens = tuple((hash(ticket.request_id) + index) % 1000 + 1 for index in range(ticket.prompt_token_count))
            sampling = SamplingParams(max_tokens=ticket.max_token_count, temperature=0, ignore_eos=True)
            urgency = _ENGINE_URGENCIES[ticket.urgency]
            self._engine.add(EngineRequest(ticket.key, tokens, sampling, urgency=urgency))
            self.held[ticket.key] = ticket
        if not self._stepping:
            self._step()

    def report(self) -> WorkerReport:
        stats = self._engine.stats()
        self._version += 1
        config = self._config
        return WorkerReport(
            worker_id=self.name,
            epoch=1,
            version=self._version,
            model=MODEL,
            credit_count=0 if stats.waiting_count else max(0, config.max_running_count - len(self.held)),
            open_count=len(self.held),
            block_size=config.block_size,
            block_count=config.block_count,
            used_block_count=stats.used_block_count,
            running_count=stats.running_count,
            pausable_count=stats.pausable_count,
            waiting_token_count=stats.waiting_token_count,
            step_count=stats.step_count,
            prefill_rate=1 / config.prefill_seconds_per_token if config.prefill_seconds_per_token else 0.0,
            step_seconds=config.base_seconds,
            hourly_price=self._price,
        )

    def _pass_time(self, until: float) -> None:
        self._now = max(self._now, until)

    def _step(self) -> None:
        if not self._engine.has_work():
            self._stepping = False
            return
        self._stepping = True
        self._now = self._platform.now
        deltas = self._engine.step()
        self._platform.at(self._now, lambda: self._deliver(deltas))

    def _deliver(self, deltas: Sequence[object]) -> None:
        for delta in deltas:
            outcome = self._platform.outcomes[delta.request_id]  # type: ignore[attr-defined]
            outcome.token_count += len(delta.token_ids)  # type: ignore[attr-defined]
            outcome.first_token_at = outcome.first_token_at or self._platform.now
            if delta.finish_reason is not None:  # type: ignore[attr-defined]
                outcome.finished_at = self._platform.now
                ticket = self.held.pop(outcome.ticket.key)
                self._platform.feed(events.Settled(MODEL, ticket.request_id, outcome.token_count))
        self._platform.feed(events.WorkerReported(self.report(), answers=True))
        self._step()


@dataclass
class SimulatedPlatform:
    """Runs events in the order of their virtual times."""

    policy: Policy = field(default_factory=Policy)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.core = SchedulingCore(self.policy)
        self.outcomes: dict[str, Outcome] = {}
        self.workers: dict[str, SimulatedWorker] = {}
        self.placements: list[float] = []
        self.on_reject: Callable[[Outcome], None] = lambda _outcome: None
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def add_worker(self, name: str, config: SimConfig, price: float = 0.0) -> None:
        worker = self.workers[name] = SimulatedWorker(self, name, config, price)

        def report() -> None:
            self.feed(events.WorkerReported(worker.report(), answers=True))
            self.at(self.now + REPORT_SECONDS, report)

        report()

    def at(self, time: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (time, next(self._numbers), act))

    def submit(self, time: float, ticket: Ticket) -> None:
        self.at(time, lambda: self._submit(ticket))

    def run(self, until: float) -> None:
        """Lets time pass."""
        self.at(self.now, self._tick)
        while self._agenda and self._agenda[0][0] <= until:
            self.now, _, act = heapq.heappop(self._agenda)
            act()
        self.now = until

    def feed(self, event: Event) -> None:
        for decision in self.core.handle(event, self.now):
            self._follow(decision)

    def _submit(self, ticket: Ticket) -> None:
        self.outcomes[ticket.key] = Outcome(ticket)
        self.feed(events.Submitted(ticket))

    def _tick(self) -> None:
        self.feed(events.Tick())
        self.at(self.now + TICK_SECONDS, self._tick)

    def _follow(self, decision: Decision) -> None:
        match decision:
            case decisions.Dispatch():
                worker = self.workers[decision.worker_id]
                tickets = [member.ticket for member in decision.members]
                worker.take(tickets)
                self.at(self.now, lambda: self._accept(worker, tickets))
            case decisions.Reject(ticket, reason, retry_after):
                outcome = self.outcomes[ticket.key]
                outcome.rejection, outcome.retry_after = reason, retry_after
                self.on_reject(outcome)
            case decisions.Expire(ticket):
                self.outcomes[ticket.key].expired = True
            case decisions.WakeAt(time):
                self.at(max(time, self.now), lambda: self.feed(events.Tick()))

    def _accept(self, worker: SimulatedWorker, tickets: Sequence[Ticket]) -> None:
        self.feed(events.WorkerReported(worker.report(), answers=True))
        for ticket in tickets:
            outcome = self.outcomes[ticket.key]
            outcome.placed_at, outcome.worker = self.now, worker.name
            self.placements.append(self.now)
            self.feed(events.Accepted(ticket, worker.name))


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
