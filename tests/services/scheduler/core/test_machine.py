"""The core under any order of events: nothing is lost, nothing is placed twice, no credit is spent twice."""

from collections.abc import Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.kv.held_prefix import HeldPrefix
from headrace.scheduler.core import decisions, events
from headrace.scheduler.core.core import SchedulingCore
from headrace.scheduler.core.decisions import Decision
from headrace.scheduler.core.events import Event
from headrace.scheduler.core.fleet.transfer_terms import TransferTerms
from headrace.scheduler.core.fleet.worker import WorkerReport
from headrace.scheduler.core.journal import Journal
from headrace.scheduler.core.policy import Policy
from headrace.scheduler.core.queueing.ticket import Ticket
from headrace.scheduler.core.queueing.urgency import Urgency

MODEL = "m"
CAPACITY = 3
BLOCK_COUNT = 40
BLOCK_SIZE = 4
POLICY = Policy(
    max_waiting_count=6,
    max_batch_size=2,
    max_batch_token_count=60,
    starvation_seconds=1.0,
    transfer=TransferTerms(8),
)


class PlayedWorker:
    """A worker that takes what it has room for."""

    def __init__(self, name: str, adapters: frozenset[str], *, is_prefill: bool = False) -> None:
        self.name = name
        self.adapters = adapters
        self.is_prefill = is_prefill
        self.epoch = 1
        self.version = 0
        self.held: dict[str, Ticket] = {}

    def report(self) -> WorkerReport:
        self.version += 1
        used = sum(-(-ticket.prompt_token_count // BLOCK_SIZE) for ticket in self.held.values())
        batch = sum(ticket.urgency is Urgency.BATCH for ticket in self.held.values())
        return WorkerReport(
            worker_id=self.name,
            epoch=self.epoch,
            version=self.version,
            model=MODEL,
            credit_count=max(0, CAPACITY - len(self.held)),
            open_count=len(self.held),
            adapters=self.adapters,
            block_size=BLOCK_SIZE,
            block_count=BLOCK_COUNT,
            used_block_count=min(BLOCK_COUNT, used),
            running_count=len(self.held),
            pausable_count=batch,
            step_count=self.version,
            is_prefill=self.is_prefill,
            block_layout="x",
            block_bytes=1,
        )


class CoreMachine(RuleBasedStateMachine):
    """Plays gateways and workers against one core. The state of every ticket is known at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.core = SchedulingCore(POLICY)
        self.journal = Journal(100_000, complete=True)
        self.now = 100.0
        self.count = 0
        self.state: dict[str, str] = {}
        """State of each ticket: waiting, sent, or over."""
        self.tickets: dict[str, Ticket] = {}
        self.on_the_way: list[tuple[str, Ticket]] = []

    @initialize()
    def start(self) -> None:
        self.workers = {
            "w0": PlayedWorker("w0", frozenset()),
            "w1": PlayedWorker("w1", frozenset({"a"})),
            "w2": PlayedWorker("w2", frozenset({"a"}), is_prefill=True),
        }
        for worker in self.workers.values():
            self.feed(events.WorkerReported(worker.report(), answers=True))

    def feed(self, event: Event) -> None:
        decided = self.core.handle(event, self.now)
        self.journal.record(event, self.now, decided)
        self.follow(decided)

    def follow(self, decided: Sequence[Decision]) -> None:
        for decision in decided:
            match decision:
                case decisions.Dispatch():
                    assert len(decision.members) <= POLICY.max_batch_size
                    for ticket in (member.ticket for member in decision.members):
                        assert self.state[ticket.key] == "waiting", "placed twice, or placed after it was over"
                        assert not ticket.adapter or ticket.adapter in self.workers[decision.worker_id].adapters
                        assert ticket.deadline > self.now
                        self.state[ticket.key] = "sent"
                        self.on_the_way.append((decision.worker_id, ticket))
                case decisions.Reject(ticket) | decisions.Expire(ticket):
                    assert self.state[ticket.key] == "waiting", "answered twice"
                    assert not (ticket.resumes and isinstance(decision, decisions.Reject)), "a migration was refused"
                    self.state[ticket.key] = "over"
                case decisions.WakeAt(time):
                    assert time > self.now - 1e-9

    @rule(
        urgency=st.sampled_from([Urgency.REALTIME, Urgency.INTERACTIVE, Urgency.DEFAULT, Urgency.BATCH]),
        tenant=st.sampled_from("xyz"),
        tokens=st.integers(1, 70),
        adapter=st.sampled_from(["", "", "a", "missing"]),
        resumes=st.booleans(),
        seconds=st.floats(0.05, 50),
        held=st.dictionaries(
            st.sampled_from(["w0", "w1", "w2", "gone"]), st.builds(HeldPrefix, st.integers(0, 10), st.integers(0, 10))
        ),
    )
    def submit(
        self,
        urgency: Urgency,
        tenant: str,
        tokens: int,
        adapter: str,
        resumes: bool,
        seconds: float,
        held: dict[str, HeldPrefix],
    ) -> None:
        if resumes and adapter == "missing":
            return  # It had a place, so that there is such an adapter.
        self.count += 1
        ticket = Ticket(
            request_id=f"r{self.count}",
            attempt=1,
            model=MODEL,
            tenant=tenant,
            arrival=self.now,
            deadline=self.now + seconds,
            prompt_token_count=tokens,
            max_token_count=10,
            urgency=urgency,
            adapter=adapter,
            resumes=resumes,
            held=held,
        )
        self.tickets[ticket.key], self.state[ticket.key] = ticket, "waiting"
        self.feed(events.Submitted(ticket))

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        waiting = [key for key, state in self.state.items() if state == "waiting"]
        if waiting:
            key = data.draw(st.sampled_from(waiting))
            self.state[key] = "over"
            self.feed(events.Cancelled(MODEL, key))

    @rule(data=st.data(), fails=st.booleans())
    def arrive(self, data: st.DataObject, fails: bool) -> None:
        """A dispatched ticket reaches its worker, which takes it or has no room, or the call fails."""
        if not self.on_the_way:
            return
        index = data.draw(st.integers(0, len(self.on_the_way) - 1))
        name, ticket = self.on_the_way.pop(index)
        worker = self.workers[name]
        batch = [held for held in worker.held.values() if held.urgency is Urgency.BATCH]
        urgent = ticket.rank is Urgency.REALTIME
        if fails:
            self.state[ticket.key] = "over"
            self.feed(events.Failed(ticket, name))
        elif len(worker.held) < CAPACITY or (urgent and batch):
            worker.held[ticket.key] = ticket
            self.state[ticket.key] = "over"
            self.feed(events.WorkerReported(worker.report(), answers=True))
            self.feed(events.Accepted(ticket, name))
        else:
            self.state[ticket.key] = "waiting"
            self.feed(events.WorkerReported(worker.report(), answers=True))
            self.feed(events.Refused(ticket, name))

    @rule(data=st.data(), output=st.integers(0, 10))
    def finish(self, data: st.DataObject, output: int) -> None:
        busy = [worker for worker in self.workers.values() if worker.held]
        if busy:
            worker = data.draw(st.sampled_from(busy))
            key = data.draw(st.sampled_from(sorted(worker.held)))
            ticket = worker.held.pop(key)
            self.feed(events.WorkerReported(worker.report()))
            self.feed(events.Settled(MODEL, ticket.request_id, output))

    @rule(name=st.sampled_from(["w0", "w1", "w2"]))
    def restart(self, name: str) -> None:
        """A worker begins a new life, and loses what it held and what is on its way to it."""
        worker = self.workers[name]
        lost = [(owner, ticket) for owner, ticket in self.on_the_way if owner == name]
        self.on_the_way = [pair for pair in self.on_the_way if pair[0] != name]
        self.feed(events.WorkerLost(MODEL, name, worker.epoch))
        for _, ticket in lost:
            self.state[ticket.key] = "over"
            self.feed(events.Failed(ticket, name))
        worker.held.clear()
        worker.epoch -= 1  # Its clock was set back.
        worker.version = 0
        self.feed(events.WorkerReported(worker.report(), answers=True))

    @rule(seconds=st.sampled_from([0.0, 0.01, 0.2, 0.5, 3.0]))
    def wait(self, seconds: float) -> None:
        """Time passes, in which workers speak."""
        self.now += seconds
        self.feed(events.Tick())
        for worker in self.workers.values():
            self.feed(events.WorkerReported(worker.report(), answers=True))

    @invariant()
    def what_waits_is_what_is_queued(self) -> None:
        desk = self.core.desk(MODEL)
        waiting = {key for key, state in self.state.items() if state == "waiting"}
        assert {ticket.key for ticket in desk.queue} == waiting
        assert desk.queue.token_count == sum(self.tickets[key].prompt_token_count for key in waiting)

    @invariant()
    def credit_is_spent_once(self) -> None:
        fleet = self.core.desk(MODEL).fleet
        for name, worker in fleet.workers.items():
            assert sorted(worker.sent) == sorted(ticket.key for owner, ticket in self.on_the_way if owner == name)
            assert worker.sent_block_count == sum(blocks for blocks, _ in worker.sent.values())
            assert worker.sent_token_count == sum(tokens for _, tokens in worker.sent.values())
            assert len(worker.sent) <= worker.report.credit_count + worker.report.pausable_count + CAPACITY
        assert fleet._load == sum(worker.load for worker in fleet.workers.values())

    def teardown(self) -> None:
        """Runs until every request has a place or an answer. Then replays the journal in another core."""
        for _ in range(400):
            if not any(state != "over" for state in self.state.values()):
                break
            while self.on_the_way:
                name, ticket = self.on_the_way.pop()
                self.state[ticket.key] = "over"
                self.feed(events.WorkerReported(self.workers[name].report(), answers=True))
                self.feed(events.Accepted(ticket, name))
            for worker in self.workers.values():
                worker.held.clear()
            self.wait(0.2)
        assert all(state == "over" for state in self.state.values()), "somebody waits for ever"
        again = SchedulingCore(POLICY)
        for entry in self.journal:
            assert tuple(again.handle(entry.event, entry.time)) == entry.decisions


CoreMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=60, deadline=None, derandomize=True)
TestCore = pytest.mark.slow(CoreMachine.TestCase)
