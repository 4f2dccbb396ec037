"""Journals of the streams that this gateway answers with, written to the caches beside the streams."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterator, Sequence

from google.protobuf.message import DecodeError
from prometheus_client import Counter

from headrace.domain.stream_part import StreamPart
from headrace.errors import HeadraceError, NotEnabled, NotFound
from headrace.gateway.access.caller import Caller
from headrace.gateway.config import GatewaySettings
from headrace.gateway.request.envelope import Envelope
from headrace.gateway.resumption.event_id import EventId
from headrace.gateway.resumption.resumption import Resumption
from headrace.gateway.resumption.stream_journal import StreamJournal
from headrace.gateway.resumption.streamed_request import StreamedRequest
from headrace.gateway.resumption.translation import copy_of, to_known, to_streamed_request
from headrace.service_clients.cache import JournalClient

WRITE_SECONDS = 0.2
"""Seconds between two writes while tokens come. A stream that is resumed computes the tokens since the last again."""
MIN_PAUSE_SECONDS = 0.02
"""Minimum seconds between two writes, the first and the last of a stream included."""
FIND_PAUSE_SECONDS = 0.15
"""Seconds after which a stream that no cache knows is looked for once more."""
CALL_SECONDS = 0.5
"""Seconds that a cache has to answer."""
MAX_BODY_BYTES = 1024 * 1024
"""Maximum bytes of the body of a request that is journaled."""
MAX_PARTS = 32
"""Maximum number of streams of one call. All of them wake up in one turn of the event loop."""
MAX_WRITE_BYTES = 4 * 1024 * 1024
"""Bytes of one call after which it takes no further stream."""
MAX_FAILURES = 4
"""Number of failed writes in a row after which a stream that has ended is left."""
REFRESH_SHARE = 3
"""Number of times that the journal of a quiet stream is prolonged in its lifetime."""

WRITES = Counter("headrace_journal_writes", "Writes of streams' journals to caches, by outcome", ["outcome"])
RESUMED = Counter("headrace_resumed_streams", "Streams that a client resumed", ["model"])

_log = logging.getLogger(__name__)


class Journals:
    """Opens journals and finds them again. A cache that does not answer costs the streams nothing."""

    def __init__(self, settings: GatewaySettings, caches: JournalClient) -> None:
        self._lifetime = settings.resume_seconds
        self._caches = caches
        self._open: dict[tuple[str, str], StreamJournal] = {}
        self._has_news = asyncio.Event()
        self._refreshed = time.monotonic()
        self._is_away = False
        """Whether no cache answered the last write."""

    def __len__(self) -> int:
        return len(self._open)

    def takes(self, body: bytes) -> bool:
        """Whether the stream that answers a body can be resumed."""
        return self._lifetime > 0 and len(body) <= MAX_BODY_BYTES

    @contextlib.contextmanager
    def opened(
        self,
        stream_id: str,
        request: StreamedRequest,
        envelope: Envelope,
        resumption: Resumption | None,
        *,
        by_token: bool = False,
    ) -> Iterator[StreamJournal]:
        """Follows a stream in the block. An earlier request for the same stream that still runs here is ended."""
        key = envelope.tenant.name, stream_id
        if resumption is None:
            journal = StreamJournal(stream_id, request, envelope, by_token=by_token)
        else:
            known, after = resumption.known, resumption.after
            journal = StreamJournal(stream_id, resumption.request, envelope, known, after, by_token=by_token)
            RESUMED.labels(model=request.model).inc()
        if (earlier := self._open.get(key)) is not None:
            journal.take_over(earlier)
        self._open[key] = journal
        self._has_news.set()
        if self._is_away or resumption is not None:
            journal.answered.set()
        try:
            with journal:
                yield journal
        finally:
            self._has_news.set()

    async def find(self, stream_id: str, caller: Caller, after: EventId | None) -> Resumption:
        """Finds the journal of a stream, for the key that began it. Raises NotFound, NotEnabled, and Unavailable where
        no cache answers."""
        if not self._lifetime:
            raise NotEnabled("streams cannot be resumed here: gateway.resume_seconds is 0")
        found = self._found_here(stream_id, caller, after) or await self._found_there(stream_id, caller, after)
        if found is None:
            # The gateway that began it may be about to write it for the first time.
            await asyncio.sleep(FIND_PAUSE_SECONDS)
            found = await self._found_there(stream_id, caller, after)
        if found is None or found.request.key_id != (caller.key.id if caller.key else ""):
            raise NotFound(
                f"there is no stream {stream_id[:160]}: streams can be resumed for {self._lifetime:g} s after their "
                "last token, with the key that began them; send the request again"
            )
        return found

    async def watch(self) -> None:
        """Writes journals until cancelled."""
        while self._lifetime:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WRITE_SECONDS):
                    await self._has_news.wait()
            self._has_news.clear()
            await self.write()
            await asyncio.sleep(MIN_PAUSE_SECONDS)

    async def write(self) -> None:
        """Writes what is new, and prolongs the rest now and then."""
        is_refresh = time.monotonic() - self._refreshed > self._lifetime / REFRESH_SHARE
        if is_refresh:
            self._refreshed = time.monotonic()
        due = [journal for journal in self._open.values() if is_refresh or journal.is_due]
        some: list[tuple[StreamJournal, StreamPart]] = []
        size = 0
        for journal in due:
            part = journal.next_part()
            some.append((journal, part))
            size += part.size
            if len(some) == MAX_PARTS or size > MAX_WRITE_BYTES:
                await self._write(some)
                some, size = [], 0
        if some:
            await self._write(some)
        for key, journal in list(self._open.items()):
            if journal.is_over or (journal.has_ended and journal.failure_count >= MAX_FAILURES):
                del self._open[key]

    async def close(self) -> None:
        """Writes what is left to write, once."""
        if self._lifetime:
            await self.write()

    async def _write(self, some: Sequence[tuple[StreamJournal, StreamPart]]) -> None:
        try:
            kept = await self._caches.keep_streams([part for _, part in some], CALL_SECONDS, self._lifetime)
        except HeadraceError as error:
            WRITES.labels(outcome="failed").inc()
            _log.info("no cache keeps the journals of streams", extra={"error": error.message})
            for journal, _ in some:
                journal.note_failure()
            self._is_away = True
            return
        self._is_away = False
        WRITES.labels(outcome="written").inc()
        for journal, part in some:
            key = journal.tenant, journal.stream_id
            is_left = journal.stream_id in kept.refused
            if not is_left and journal.stream_id in kept.unknown:
                is_left = not journal.note_forgotten()
            elif not is_left:
                journal.note_written(part)
            if is_left and self._open.get(key) is journal:
                del self._open[key]

    def _found_here(self, stream_id: str, caller: Caller, after: EventId | None) -> Resumption | None:
        journal = self._open.get((caller.tenant.name, stream_id))
        if journal is None:
            return None
        return Resumption(stream_id, journal.request, copy_of(journal.tokens), after)

    async def _found_there(self, stream_id: str, caller: Caller, after: EventId | None) -> Resumption | None:
        found = await self._caches.find_stream(caller.tenant.name, stream_id, CALL_SECONDS)
        if found is None:
            return None
        try:
            return Resumption(
                stream_id, to_streamed_request(found.record, found.record_age), to_known(found.parts), after
            )
        except DecodeError:
            _log.warning("a cache returned no valid journal", extra={"stream": stream_id})
            return None
