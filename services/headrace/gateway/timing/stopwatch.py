"""Time of one request, divided into stages without a gap."""

import time

RECEIVE = "receive"
PARSE = "parse"
ADMISSION = "admission"
TOKENIZE = "tokenize"
CACHE = "cache"
LOST = "lost"
QUEUE = "queue"
DISPATCH = "dispatch"
WORKER_QUEUE = "worker_queue"
PREFILL = "prefill"
DECODE = "decode"
DETOKENIZE = "detokenize"
SERIALIZE = "serialize"
FLUSH = "flush"
GUARD = "guard"
WAIT = "wait"
"""Wait for the first token, which is divided into queue, dispatch, worker_queue and prefill once the other services
have reported theirs."""

STAGES = (
    RECEIVE,
    PARSE,
    ADMISSION,
    TOKENIZE,
    CACHE,
    LOST,
    QUEUE,
    DISPATCH,
    WORKER_QUEUE,
    PREFILL,
    DECODE,
    DETOKENIZE,
    GUARD,
    SERIALIZE,
    FLUSH,
)
"""Every stage, in the order in which a request reaches it first."""


class Stopwatch:
    """Charges the time since the last lap to one stage. As there is no time between two laps, the stages add up to the
    whole, also where several sequences of a request run side by side: then each lap is charged to whatever ended."""

    __slots__ = ("_last", "seconds", "started")

    def __init__(self, started: float | None = None) -> None:
        """`started`: time at which the request began, in monotonic seconds. None: now."""
        self.started = self._last = time.monotonic() if started is None else started
        self.seconds: dict[str, float] = {}
        """Seconds by stage so far."""

    def lap(self, stage: str) -> float:
        """Charges the time since the last lap to `stage`. Returns the time, in monotonic seconds."""
        now = time.monotonic()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._last
        self._last = now
        return now

    def move(self, stage: str, other: str) -> None:
        """Charges to `other` what was charged to `stage`."""
        self.seconds[other] = self.seconds.get(other, 0.0) + self.seconds.pop(stage, 0.0)

    @property
    def elapsed(self) -> float:
        """Seconds from the start to the last lap: the sum of all stages."""
        return self._last - self.started
