"""Protocol of the bus, and the parts that NATS and its in-memory twin share: numbering and the counting of gaps."""

import itertools
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from google.protobuf.message import Message
from prometheus_client import Counter

from headrace.bus.subjects import pattern_of
from headrace.errors import Unavailable

M = TypeVar("M", bound=Message)
PUBLISHER_HEADER = "Headrace-Publisher"
SEQUENCE_HEADER = "Headrace-Sequence"
TRACE_HEADER = "traceparent"
MAX_SUBJECTS = 10_000
"""Maximum number of subjects whose numbers are remembered. Every worker has a few."""

EVENT_GAPS = Counter("headrace_bus_event_gaps", "Events that were published and never arrived here", ["subject"])
EVENTS_DROPPED = Counter("headrace_bus_events_dropped", "Events that could not be published or handled", ["reason"])


class StoreAway(Unavailable):
    """The key-value store of the bus does not answer."""


@dataclass(frozen=True, slots=True)
class Versioned(Generic[M]):
    """Entry of the store at one revision. Later writes have larger ones."""

    message: M
    revision: int


@dataclass(frozen=True, slots=True)
class Store:
    """Bucket of the key-value store."""

    bucket: str
    lifetime: float
    """Seconds after which an entry that is not written again disappears."""

    @property
    def stream(self) -> str:
        """Name of the JetStream stream that holds the bucket."""
        return f"KV_{self.bucket}"


REGISTRY = Store("headrace_registry", 30.0)
"""Services that are there. The entry of one that is gone expires."""
LEASES = Store("headrace_leases", 30.0)
LIMITS = Store("headrace_limits", 2 * 86400.0)
"""Budgets of keys. The longest bucket fills in a day, and no entry is a full one."""
BATCHES = Store("headrace_batches", 30.0)
"""Batches that gateways run."""


class Bus(Protocol):
    """Publishes and delivers events. Without it events are lost, never requests: only the store raises when it is
    away."""

    @property
    def connected(self) -> bool: ...

    async def publish(self, subject: str, message: Message) -> None:
        """Publishes an event. Dropped and counted while there is no connection."""

    async def subscribe(self, pattern: str, message_type: type[M], handler: Callable[[M], None]) -> None:
        """Calls `handler` with every event whose subject matches. Continues after a reconnect."""

    async def ask(self, subject: str, question: Message, answer_type: type[M], count: int, seconds: float) -> list[M]:
        """Publishes a question. Returns the answers that arrive within `seconds`, `count` answers at most; nothing
        while there is no connection."""

    async def answer(self, pattern: str, question_type: type[M], handler: Callable[[M], Message | None]) -> None:
        """Answers every question whose subject matches with what `handler` returns, None with nothing. Continues after
        a reconnect."""

    async def put(self, key: str, message: Message) -> None:
        """Writes an entry of the registry."""

    async def delete(self, key: str) -> None:
        """Removes an entry of the registry."""

    async def entries(self, message_type: type[M]) -> list[M]:
        """Reads the registry. Empty while there is no connection."""

    async def read(self, key: str, message_type: type[M], store: Store = LEASES) -> "Versioned[M] | None":
        """Reads an entry of a store, or None if there is none. Raises StoreAway while there is no connection."""

    async def swap(self, key: str, message: Message, revision: int, store: Store = LEASES) -> int | None:
        """Writes an entry of a store if its revision is still `revision`; 0: if there is none. Returns the new
        revision, or None if another writer was faster. Raises StoreAway while there is no connection."""

    def on_connect(self, callback: Callable[[], None]) -> None:
        """Calls back after every connect, the first included."""

    async def close(self) -> None: ...


@dataclass
class Numbering:
    """Numbers events per subject, so that the other side can count those it missed."""

    publisher_id: str
    _counters: dict[str, "itertools.count[int]"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.publisher_id = f"{self.publisher_id}@{time.time_ns():x}"

    def headers(self, subject: str) -> dict[str, str]:
        number = next(self._counters.setdefault(subject, itertools.count(1)))
        return {PUBLISHER_HEADER: self.publisher_id, SEQUENCE_HEADER: str(number)}


@dataclass
class GapCounter:
    """Counts gaps in the numbers that arrive. A publisher that restarted counts from one again. The subjects that were
    silent longest are forgotten, so that workers which come and go leave nothing behind."""

    _last_seen: OrderedDict[str, tuple[str, int]] = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return len(self._last_seen)

    def count_missing(self, subject: str, headers: Mapping[str, str]) -> int:
        """Returns the number of events missing just before this one."""
        publisher, number = headers.get(PUBLISHER_HEADER, ""), int(headers.get(SEQUENCE_HEADER, "0"))
        known_publisher, last = self._last_seen.get(subject, ("", 0))
        is_known = publisher == known_publisher
        # A late event must not make the events that overtook it count as missing again.
        self._last_seen[subject] = (publisher, max(number, last) if is_known else number)
        self._last_seen.move_to_end(subject)
        while len(self._last_seen) > MAX_SUBJECTS:
            self._last_seen.popitem(last=False)
        missing = number - last - 1 if is_known and number > last else 0
        if missing:
            EVENT_GAPS.labels(subject=pattern_of(subject)).inc(missing)
        return missing
