"""Endpoint of a pool as the picker knows it: its last scrape, and the requests that were sent to it since."""

from dataclasses import dataclass

from headrace.scheduler.core.fleet.worker import WorkerReport
from headrace.scheduler.picker.endpoints.endpoint_pace import EndpointPace
from headrace.scheduler.picker.endpoints.reported_load import ReportedLoad

BLOCK_TOKENS = 64
"""Tokens of a block, by which the core counts prefixes and memory."""
NOMINAL_PROMPT_TOKENS = 512
"""Tokens assumed of a prompt that waits there and that another sent."""
DISTRUST_SECONDS = 2.0
"""Seconds for which an endpoint that failed a request gets no other, unless it answers one."""


@dataclass(frozen=True, slots=True)
class EndpointLimits:
    """Limits of each endpoint."""

    request_count: int
    """Requests that it is given at once."""
    waiting_count: int
    """Requests that may wait there before it is given no more."""
    failed_scrapes: int
    """Scrapes that must fail one after the other until it is not ready."""


@dataclass(slots=True)
class _Sent:
    token_count: int
    """Tokens of its prompt that the endpoint is to compute."""
    expected_at: float
    """Time at which its first token is expected."""
    has_begun: bool = False
    """Whether a piece of its answer has come."""


class PoolEndpoint:
    """One incarnation of an endpoint: it is new after it was not ready."""

    def __init__(self, address: str, model: str, limits: EndpointLimits) -> None:
        self.address = address
        self.epoch = 0
        """Grows each time it becomes ready."""
        self.is_ready = False
        self.was_seen = False
        """Whether a scrape of it has ended, well or not."""
        self._model = model
        self._limits = limits
        self._load = ReportedLoad(0, 0)
        self._pace = EndpointPace()
        self._sent: dict[str, _Sent] = {}
        self._other_count = 0
        """Requests of others that it held at the last scrape."""
        self._other_waiting_count = 0
        self._failed_scrapes = 0
        self._distrusted_until = float("-inf")
        self._version = 0
        self._progress = 0
        self._moves = True
        """Whether it computed anything between the last two scrapes, or had nothing to do."""

    @property
    def open_count(self) -> int:
        """Requests that it holds, as far as is known."""
        return len(self._sent) + self._other_count

    def take_load(self, load: ReportedLoad) -> None:
        """Takes in a scrape. What is beyond our own requests is of others."""
        before, self._load = self._load, load
        if self.is_ready:
            self._pace.measure(before, load)
        else:
            self.is_ready, self._distrusted_until = True, float("-inf")
            self.epoch += 1
        self.was_seen, self._failed_scrapes = True, 0
        self._other_count = max(0, load.request_count - len(self._sent))
        unbegun = sum(not sent.has_begun for sent in self._sent.values())
        self._other_waiting_count = max(0, load.waiting_count - unbegun)
        self._moves = load.progress is None or load.progress != before.progress or not load.request_count

    def fail_scrape(self) -> None:
        """Takes in that a scrape failed."""
        self.was_seen = True
        self._failed_scrapes += 1
        if self._failed_scrapes >= self._limits.failed_scrapes:
            self.is_ready = False

    def send(self, request_id: str, token_count: int, expected_at: float) -> None:
        """Counts a request that was sent to it."""
        self._sent[request_id] = _Sent(token_count, expected_at)

    def begin(self, request_id: str, seconds: float) -> None:
        """Takes in that the first piece of an answer came after a time: its prompt is computed."""
        if (sent := self._sent.get(request_id)) is not None:
            sent.has_begun = True
            self._pace.note_first_token(sent.token_count, seconds)

    def end(self, request_id: str) -> None:
        """Takes in that a request has ended, or is elsewhere."""
        self._sent.pop(request_id, None)

    def distrust(self, now: float) -> None:
        """Takes in that it failed a request."""
        self._distrusted_until = now + DISTRUST_SECONDS

    def trust(self) -> None:
        """Takes in that it answered a request."""
        self._distrusted_until = float("-inf")

    def answers(self, now: float) -> bool:
        """Whether requests reach it, as far as is known."""
        return now >= self._distrusted_until

    def report(self, now: float) -> WorkerReport:
        """Returns its load, as a worker of our own would report it."""
        self._version += 1
        self._progress += self._moves
        load, open_count = self._load, self.open_count
        unread = [sent for sent in self._sent.values() if not sent.has_begun and now < sent.expected_at]
        is_full = load.waiting_count > self._limits.waiting_count
        block_count = load.kv_token_count // BLOCK_TOKENS
        return WorkerReport(
            worker_id=self.address,
            epoch=self.epoch,
            version=self._version,
            model=self._model,
            credit_count=0 if is_full else max(0, self._limits.request_count - open_count),
            open_count=open_count,
            address=self.address,
            block_size=BLOCK_TOKENS,
            block_count=block_count,
            used_block_count=int(load.kv_share * block_count),
            running_count=max(0, open_count - len(unread) - self._other_waiting_count),
            waiting_token_count=sum(sent.token_count for sent in unread)
            + self._other_waiting_count * NOMINAL_PROMPT_TOKENS,
            step_count=self._progress,
            computed_token_count=int(load.prompt_tokens or 0),
            prefill_rate=self._pace.prefill_rate,
            step_seconds=self._pace.step_seconds,
        )
