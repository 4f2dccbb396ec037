"""Record of one request: its ids, its stages, what it used and how it ended. Never any text of prompts or answers."""

import time
from dataclasses import dataclass, field

from headrace.gateway.timing.latency_verdict import LatencyVerdict
from headrace.gateway.timing.request_metrics import TIME_TO_FIRST_TOKEN, exemplar_of
from headrace.gateway.timing.stopwatch import (
    ADMISSION,
    DECODE,
    DISPATCH,
    FLUSH,
    LOST,
    PARSE,
    PREFILL,
    QUEUE,
    STAGES,
    TOKENIZE,
    WAIT,
    WORKER_QUEUE,
    Stopwatch,
)

FINISHED = "finished"
GENERATIONS = frozenset({"chat", "text_completion"})
MAX_PATH_LENGTH = 200
"""Maximum characters of a path that are kept."""


@dataclass(slots=True, eq=False)
class RequestRecord:
    """Filled in while the request runs, by each stage that knows a part of it."""

    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    started_time: float = field(default_factory=time.time)
    """Unix seconds."""
    client_id: str = ""
    """Id by which the client knows the request: its x-request-id, or one made for it."""
    request_id: str = ""
    """Id that is unique in the platform. Empty: the request was refused before it got one."""
    api: str = "http"
    route: str = ""
    path: str = ""
    """Path that the client asked for, at most MAX_PATH_LENGTH characters. Empty: it called over gRPC."""
    operation: str = ""
    """Kind of request, in the words of OpenTelemetry's `gen_ai.operation.name`. Empty: refused before it was known."""
    model: str = ""
    tenant: str = ""
    """Tenant of the caller. Empty: the caller did not say who it is."""
    request_class: str = "default"
    is_admitted: bool = False
    """Whether a ledger entry counts how the request ends."""
    is_stream: bool = False
    status: int = 0
    """HTTP status. 0: no response was begun."""
    outcome: str = "open"
    error: str = ""
    """Message that the client got with a failure. Empty: the request did not fail."""
    worker_id: str = ""
    """Worker of the sequence that was placed last."""
    attempt_count: int = 0
    """Maximum number of placements over the sequences."""
    prompt_token_count: int = 0
    output_token_count: int = 0
    cached_token_count: int = 0
    """Prompt tokens whose KV was not computed."""
    disk_token_count: int = 0
    """Cached tokens that were on the worker's disk."""
    worker_token_count: int = 0
    """Cached tokens that came from another worker."""
    store_token_count: int = 0
    """Cached tokens that came from the store that workers share."""
    response_cache: str = ""
    """Answer of the response cache, `hit` or `miss`. Empty: it was not asked."""
    finish_reasons: list[str] = field(default_factory=list)
    verdict: LatencyVerdict | None = None
    """Whether it met the latency budget of its class. None: it does not count."""
    trace_id: str = ""
    """Id of the trace, in hexadecimal, if one is recorded."""
    first_token: float | None = None
    """Time at which the first token was there, in monotonic seconds."""
    last_token: float | None = None
    first_sent: float | None = None
    """Time at which the first token of a stream had been written, in monotonic seconds."""
    _queue_seconds: float = 0.0
    _worker_queue_seconds: float = 0.0
    _prefill_seconds: float = 0.0

    def __post_init__(self) -> None:
        self.started_time -= time.monotonic() - self.stopwatch.started

    def note_attempt(self, number: int) -> None:
        """Notes that a sequence asks for a place. Time of an attempt before, which came to nothing, is lost."""
        self.attempt_count = max(self.attempt_count, number)
        if number > 1 and self.first_token is None:
            self.stopwatch.lap(LOST)
            self.stopwatch.move(WAIT, LOST)

    def note_place(self, worker_id: str, queue_seconds: float) -> None:
        """Notes the worker of a sequence, and for how long a scheduler had it in its queue."""
        self.worker_id = worker_id
        if self.first_token is None:
            self._queue_seconds = queue_seconds

    def note_worker(self, queue_seconds: float, prefill_seconds: float) -> None:
        """Notes how long the first sequence waited on its worker, and how long its prompt took there."""
        if self.first_token is None:
            self._worker_queue_seconds, self._prefill_seconds = queue_seconds, prefill_seconds

    def note_tokens(self) -> None:
        """Notes that tokens arrived."""
        if self.first_token is None:
            self.first_token = self.last_token = self.stopwatch.lap(WAIT)
        else:
            self.last_token = self.stopwatch.lap(DECODE)

    def note_flush(self) -> None:
        """Notes that a part of the response has been handed to the client's connection."""
        now = self.stopwatch.lap(FLUSH)
        if self.first_sent is None and self.first_token is not None and self.is_stream:
            self.first_sent = now
            self.observe_first_token(now)

    def note_path(self, path: str) -> None:
        """Notes the path that was asked for, without its end where it is long."""
        self.path = path if len(path) <= MAX_PATH_LENGTH else f"{path[: MAX_PATH_LENGTH - 1]}…"

    def note_failure(self, outcome: str, message: str = "") -> None:
        """Notes that the request failed in the stage after the last one that it finished, and the message for it."""
        self.outcome, self.error = outcome, message
        done = self.stopwatch.seconds
        if self.first_token is not None:
            self.stopwatch.lap(DECODE)
        elif TOKENIZE in done:
            self.stopwatch.lap(WAIT)
        else:
            self.stopwatch.lap(TOKENIZE if ADMISSION in done else ADMISSION if self.operation else PARSE)

    def cached_places(self, token_count: int | None = None) -> dict[str, int]:
        """Returns the cached tokens by the place that had them. A block that was fetched may be lost again before its
        request begins. `token_count`: the cached tokens to divide; None divides those of all choices."""
        left = self.cached_token_count if token_count is None else token_count
        fetched = {}
        for place, count in (
            ("disk", self.disk_token_count),
            ("worker", self.worker_token_count),
            ("store", self.store_token_count),
        ):
            fetched[place] = min(count, left)
            left -= fetched[place]
        return {"memory": left, **fetched}

    def observe_first_token(self, now: float) -> None:
        """Measures the time to the first token, which the client has at `now`, in monotonic seconds."""
        seconds = now - self.stopwatch.started
        TIME_TO_FIRST_TOKEN.labels(model=self.model).observe(seconds, exemplar_of(self.trace_id))

    @property
    def is_generation(self) -> bool:
        """Whether the request asks for tokens."""
        return self.operation in GENERATIONS

    @property
    def first_token_seconds(self) -> float | None:
        """Seconds to the first token: of a stream until it was written. None: there was none."""
        reached = self.first_sent or self.first_token
        return None if reached is None else reached - self.stopwatch.started

    @property
    def output_token_seconds(self) -> float | None:
        """Mean seconds per output token after the first. None: there were fewer than two."""
        if self.first_token is None or self.last_token is None or self.output_token_count < 2:
            return None
        return (self.last_token - self.first_token) / (self.output_token_count - 1)

    def stages(self) -> dict[str, float]:
        """Returns the seconds of each stage so far, in order. They add up to the time from the start to the last lap.

        The wait for the first token is divided by what the scheduler and the worker said; the rest was spent between
        the processes, and is called dispatch."""
        found = dict(self.stopwatch.seconds)
        if (rest := found.pop(WAIT, None)) is not None:
            for stage, told in (
                (QUEUE, self._queue_seconds),
                (WORKER_QUEUE, self._worker_queue_seconds),
                (PREFILL, self._prefill_seconds),
            ):
                found[stage] = min(max(0.0, told), rest)
                rest -= found[stage]
            found[self._rest_stage] = found.get(self._rest_stage, 0.0) + rest
        return {stage: found[stage] for stage in STAGES if stage in found}

    @property
    def _rest_stage(self) -> str:
        """Stage of the part of the wait that was not reported: a request that failed was in it until its end."""
        if not self.worker_id:
            return QUEUE
        return PREFILL if self.first_token is None and self.outcome not in ("open", FINISHED) else DISPATCH
