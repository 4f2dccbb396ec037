"""Journals of streams, in memory alone: bounded in bytes and age, and gone with the process."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from prometheus_client import Gauge

from headrace.domain.kept_parts import KeptParts
from headrace.domain.kept_stream import KeptStream
from headrace.domain.stream_part import StreamPart

MAX_SHARE = 16
"""Number of journals of the maximum size for which there is room."""
ENTRY_BYTES = 512
"""Bytes that a journal takes beside what it holds."""
SWEEP_SECONDS = 5.0
"""Seconds between two searches for journals whose time is over."""

JOURNALS = Gauge("headrace_cache_streams", "Streams whose journal is kept")
JOURNAL_BYTES = Gauge("headrace_cache_stream_bytes", "Bytes of the journals of streams")


@dataclass(slots=True)
class _Entry:
    record: bytes
    expires: float
    recorded: float
    """Time at which the record came."""
    token_count: int = 0
    parts: list[bytes] = field(default_factory=list)
    size: int = ENTRY_BYTES


class StreamJournals:
    """Finds the journal of a stream. Tenants do not see each other's."""

    def __init__(self, max_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_bytes = max_bytes
        self._clock = clock
        self._entries: OrderedDict[tuple[str, str], _Entry] = OrderedDict()
        """Journals in the order of their last write."""
        self._size = 0

    def __len__(self) -> int:
        return len(self._entries)

    def keep(self, parts: Sequence[StreamPart], lifetime: float) -> KeptParts:
        """Adds parts to their journals, each of which then lives for `lifetime` seconds."""
        unknown, refused = set(), set()
        for part in parts:
            entry = self._entry(part)
            if entry is None:
                unknown.add(part.stream_id)
                continue
            now = self._clock()
            self._size += _grow(entry, part)
            entry.expires = now + lifetime
            if part.record:
                entry.recorded = now
            self._entries.move_to_end((part.tenant, part.stream_id))
            if entry.size > self._max_bytes // MAX_SHARE:
                self._drop((part.tenant, part.stream_id))
                refused.add(part.stream_id)
        while self._size > self._max_bytes:
            self._drop(next(iter(self._entries)))
        self._show()
        return KeptParts(frozenset(unknown), frozenset(refused))

    def find(self, tenant: str, stream_id: str) -> KeptStream | None:
        """Returns a journal, or None when there is none or its time is over."""
        entry = self._entries.get((tenant, stream_id))
        if entry is None or entry.expires <= self._clock():
            return None
        return KeptStream(entry.record, tuple(entry.parts), self._clock() - entry.recorded)

    def sweep(self) -> None:
        """Forgets the journals whose time is over."""
        now = self._clock()
        for key in [key for key, entry in self._entries.items() if entry.expires <= now]:
            self._drop(key)
        self._show()

    async def watch(self) -> None:
        """Forgets journals as their time ends, until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.sweep()

    def _entry(self, part: StreamPart) -> _Entry | None:
        """Returns the journal that a part continues, or begins. None: it does neither."""
        key = part.tenant, part.stream_id
        entry = self._entries.get(key)
        if entry is not None and entry.expires > self._clock() and part.first_index <= entry.token_count:
            return entry
        if not part.record or part.first_index:
            return None
        self._drop(key)
        self._size += ENTRY_BYTES
        self._entries[key] = _Entry(part.record, 0.0, 0.0, size=ENTRY_BYTES + len(part.record))
        self._size += len(part.record)
        return self._entries[key]

    def _drop(self, key: tuple[str, str]) -> None:
        entry = self._entries.pop(key, None)
        self._size -= entry.size if entry is not None else 0

    def _show(self) -> None:
        JOURNALS.set(len(self._entries))
        JOURNAL_BYTES.set(self._size)


def _grow(entry: _Entry, part: StreamPart) -> int:
    """Adds a part to a journal, and returns the bytes that this takes. One with all that is kept replaces it."""
    before = entry.size
    if part.record:
        entry.size += len(part.record) - len(entry.record)
        entry.record = part.record
    if part.tokens:
        if part.first_index == 0 and part.token_count >= entry.token_count:
            entry.size -= sum(map(len, entry.parts))
            entry.parts.clear()
        entry.parts.append(part.tokens)
        entry.size += len(part.tokens)
        entry.token_count = max(entry.token_count, part.end)
    return entry.size - before
