"""Worker as the scheduler knows it: its last report, and the tickets sent since."""

import math
from dataclasses import dataclass, field

from headrace.domain.step_times import StepTimes
from headrace.kv.held_prefix import NOTHING, HeldPrefix
from headrace.scheduler.core.queueing.ticket import Ticket
from headrace.scheduler.core.queueing.urgency import Urgency

NOMINAL_PREFILL_RATE = 10_000.0
"""Prompt tokens per second assumed of a worker that has not measured its rate."""
NOMINAL_STEP_SECONDS = 0.02
RESERVE_SHARE = 1 / 16
"""Share of the sequences of a worker that is kept free for more urgent classes, while there are such requests."""
GROWTH_TOKENS = 64
"""Output tokens for which a request must find KV blocks at once; those for the rest become free as others end."""
STALL_SECONDS = 1.0
STALL_STEPS = 20.0
"""A worker that holds work and does no step for a second, or for as long as this many steps usually take, gets no
more."""
KNOWN_TOKEN_COUNT = 4096
"""Prompt tokens that a worker must have computed before its measured rate is believed."""
ASSUMED_DISK_RATE = 1e9
"""Bytes of KV blocks per second assumed of a disk that nothing was read from yet."""


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """State of a worker as it reported it."""

    worker_id: str
    epoch: int
    """Incarnation of the worker: larger after every start."""
    version: int
    """Grows with every report of an incarnation."""
    model: str
    credit_count: int
    """Sequences that it would accept."""
    open_count: int = 0
    """Requests that the worker holds."""
    address: str = ""
    adapters: frozenset[str] = frozenset()
    vocabulary_size: int = 0
    block_size: int = 0
    """Tokens in one KV block. 0: it keeps none."""
    block_count: int = 0
    used_block_count: int = 0
    running_count: int = 0
    pausable_count: int = 0
    """Running sequences of the batch class."""
    waiting_token_count: int = 0
    """Prompt tokens accepted and not yet computed."""
    step_count: int = 0
    computed_token_count: int = 0
    """Prompt tokens that it computed since its start."""
    prefill_rate: float = 0.0
    """Prompt tokens per second. 0: not measured yet."""
    step_seconds: float = 0.0
    step_times: StepTimes | None = None
    """Times of its steps by what they compute. None: not measured yet."""
    step_token_limit: int = 0
    """Tokens of a step, at most. 0: not known."""
    max_step_seconds: float = 0.0
    """Seconds that a step which reads prompts should take at most beside sequences that decode. 0: any time."""
    hourly_price: float = 0.0
    wait_seconds: float = 0.0
    """Time until its model is awake, as the worker predicts it."""
    draining: bool = False
    fence: int = 0
    """Largest fencing number that the worker has seen."""
    is_prefill: bool = False
    """Whether it computes prompts for others, and runs whole requests only where no other worker does."""
    block_layout: str = ""
    """Digest of all that must agree for KV blocks to travel. Empty: the worker exchanges none."""
    block_bytes: int = 0
    """Size of a KV block as it travels."""
    transfer_rate: float = 0.0
    """Bytes of KV blocks per second that came to it from other workers. 0: not measured yet."""
    disk_rate: float = 0.0
    """Bytes of KV blocks per second that came from its disk. 0: not measured yet."""

    @property
    def has_measured_pace(self) -> bool:
        """Whether its rates are those of requests, by which it can be compared with others."""
        is_known = self.step_times is not None or self.computed_token_count >= KNOWN_TOKEN_COUNT
        return is_known and 0.0 < self.prefill_rate < math.inf


@dataclass(slots=True, eq=False)
class Worker:
    """One incarnation of a worker."""

    report: WorkerReport
    last_heard: float
    last_progress: float
    """Time at which it last finished a step, or had nothing to do."""
    suspect: bool = False
    """A call to it failed, and none has been answered since."""
    slot_count: int = 0
    """Maximum number of requests that it was seen to hold or accept. While prompts wait there, it accepts none."""
    stamp: int = 0
    """Grows whenever the worker's place among the others may have changed."""
    sent: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Blocks and prompt tokens of tickets in flight to it, which its report does not count yet."""
    sent_block_count: int = 0
    sent_token_count: int = 0
    lent_token_count: int = 0
    """Tokens of prompts that it was chosen to compute for others since its last report."""
    like: WorkerReport | None = None
    """Report of the fastest worker of its kind that has measured its pace. None: no other has."""

    def __post_init__(self) -> None:
        self.take(self.report)

    def take(self, report: WorkerReport) -> None:
        """Replaces the report by a newer one."""
        self.report = report
        self.slot_count = max(self.slot_count, report.open_count + report.credit_count)
        self.lent_token_count = 0

    @property
    def worker_id(self) -> str:
        return self.report.worker_id

    @property
    def load(self) -> int:
        """Requests that it holds, and those in flight to it."""
        return self.report.open_count + len(self.sent)

    @property
    def idle(self) -> bool:
        return self.load == 0 and self.takes_any

    @property
    def takes_any(self) -> bool:
        """Whether it may get requests at all."""
        return not (self.report.draining or self.suspect)

    @property
    def free_count(self) -> int:
        """Sequences that it would accept."""
        return max(0, self.report.credit_count - len(self.sent)) if self.takes_any else 0

    @property
    def prefill_rate(self) -> float:
        return self.pace.prefill_rate or NOMINAL_PREFILL_RATE

    @property
    def step_seconds(self) -> float:
        return self.pace.step_seconds or NOMINAL_STEP_SECONDS

    @property
    def step_times(self) -> StepTimes:
        """Times of its steps by what they compute. Until they are measured, each sequence is taken to add a step."""
        return self.pace.step_times or StepTimes(self.step_seconds, 1 / self.prefill_rate, self.step_seconds)

    @property
    def is_young(self) -> bool:
        """Whether it has not measured its step times yet, which it will report."""
        return self.report.step_times is None and self.report.step_token_limit > 0

    @property
    def coming_token_count(self) -> int:
        """Prompt tokens in flight to it."""
        return self.sent_token_count + self.lent_token_count

    @property
    def pressure(self) -> float:
        """Seconds for which its present work delays a new request: its model to wake, prompts to compute, and sequences
        to share steps with."""
        report, times = self.report, self.step_times
        backlog = report.waiting_token_count + self.coming_token_count
        context = report.used_block_count * report.block_size
        return report.wait_seconds + times.seconds(backlog, self.load, context) - times.base_seconds

    @property
    def pace(self) -> WorkerReport:
        """The report by which its pace is judged: its own, or one of its kind as long as it has read only the prompt of
        one token that proves its model. By the time of that, no long prompt would ever come to it to be measured."""
        return self.report if self.like is None or self.report.has_measured_pace else self.like

    def has_adapter(self, name: str) -> bool:
        """Whether it can run requests for an adapter. The empty name stands for none."""
        return not name or name in self.report.adapters

    def blocks_for(self, ticket: Ticket) -> int:
        """Returns the KV blocks that a ticket needs to begin. One that can never fit needs all."""
        report = self.report
        if not report.block_size or not report.block_count:
            return 0
        tokens = ticket.prompt_token_count + min(ticket.max_token_count, GROWTH_TOKENS)
        return min(-(-tokens // report.block_size), report.block_count)

    def held(self, ticket: Ticket) -> HeldPrefix:
        """Returns the leading blocks of a prompt that it has."""
        return ticket.held.get(self.worker_id, NOTHING)

    def missing_token_count(self, ticket: Ticket) -> int:
        """Counts the tokens of a prompt that it would have to compute."""
        return max(1, ticket.prompt_token_count - self.held(ticket).count * self.report.block_size)

    def reading_seconds(self, ticket: Ticket) -> float:
        """Predicts the seconds in which it reads the blocks of a prompt that are on its disk."""
        byte_count = self.held(ticket).on_disk * self.report.block_bytes
        return byte_count / (self.report.disk_rate or ASSUMED_DISK_RATE)

    def pauses_for(self, ticket: Ticket) -> bool:
        """Whether it would have to pause a sequence of the batch class to run a ticket."""
        return self.free_count == 0 and self._may_pause(ticket)

    def has_room(self, ticket: Ticket, token_limit: int, spares: bool) -> bool:
        """Whether it can take a ticket now. `token_limit`: most prompt tokens that may wait there. `spares`: whether a
        share of its sequences is kept free for more urgent requests."""
        if not self.takes_any:
            return False
        urgent = ticket.rank <= Urgency.REALTIME
        spared = 0 if urgent or not spares else int((self.report.open_count + self.free_count) * RESERVE_SHARE)
        if self.free_count <= spared and not self._may_pause(ticket):
            return False
        backlog = self.report.waiting_token_count + self.sent_token_count
        if backlog and not urgent and backlog + ticket.prompt_token_count > token_limit:
            return False
        return self._has_blocks(ticket)

    def is_stalled(self, now: float) -> bool:
        """Whether it holds work and makes no progress."""
        patience = max(STALL_SECONDS, STALL_STEPS * self.step_seconds)
        return now - self.last_progress > patience

    def send(self, ticket: Ticket) -> None:
        """Counts a ticket as in flight."""
        blocks = self.blocks_for(ticket)
        self.sent[ticket.key] = (blocks, ticket.prompt_token_count)
        self.sent_block_count += blocks
        self.sent_token_count += ticket.prompt_token_count

    def lend(self, token_count: int) -> None:
        """Counts a prompt that it will be asked to compute for another worker."""
        self.lent_token_count += token_count

    def arrive(self, key: str) -> None:
        """Ends the way of a ticket to it, which arrived or never will."""
        blocks, tokens = self.sent.pop(key, (0, 0))
        self.sent_block_count -= blocks
        self.sent_token_count -= tokens

    def _may_pause(self, ticket: Ticket) -> bool:
        over = max(0, len(self.sent) - self.report.credit_count)
        return ticket.rank is Urgency.REALTIME and self.takes_any and over < self.report.pausable_count

    def _has_blocks(self, ticket: Ticket) -> bool:
        report = self.report
        if not report.block_count or self._may_pause(ticket):
            return True
        held = min(self.held(ticket).in_memory, ticket.prompt_token_count // max(1, report.block_size))
        free = report.block_count - report.used_block_count - self.sent_block_count
        return self.blocks_for(ticket) - held <= free
