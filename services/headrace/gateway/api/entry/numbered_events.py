"""Events of a stream, each with the place at which a client can resume it."""

from collections.abc import Callable
from typing import Any

from headrace.gateway.delivery.text_stream import Piece
from headrace.gateway.http.exchange import Event, HttpExchange, data_event
from headrace.gateway.resumption.event_id import EventId
from headrace.gateway.resumption.stream_journal import StreamJournal, impossible
from headrace.lifecycle import wait_at_most

FIRST_WRITE_SECONDS = 0.05
"""Longest time, in seconds, that the first event waits for a cache to have the beginning of the journal."""


class NumberedEvents:
    """Writes the events of a stream that its client does not have yet. Only a journaled stream has ids."""

    def __init__(
        self, exchange: HttpExchange, journal: StreamJournal | None, encode: Callable[..., Event] = data_event
    ) -> None:
        """`encode`: writes the content of an event, and further lines."""
        self._exchange = exchange
        self._encode = encode
        self._journal = journal
        self._after = None if journal is None else journal.after
        """Last event that the client has, until it is passed."""
        self._begin = self._end = self._index = 0
        self._found = False

    def begin(self, piece: Piece) -> None:
        """Begins the events of a piece. Raises InvalidRequest where the event that the client has last is none."""
        self._begin, self._end, self._index = piece.begin, piece.end, 0
        if self._after is not None and not self._is_before(self._after) and not self._is_within(self._after):
            self.pass_known()

    def pass_known(self) -> None:
        """Says that the client has none of the events that follow. Raises InvalidRequest where the event that it has
        last is none."""
        if self._after is not None and not self._found:
            raise impossible(self._after)
        self._after = None

    async def send(self, content: Any) -> None:
        """Writes the next event of the piece, unless the client has it."""
        index, self._index = self._index, self._index + 1
        if self._after is not None and self._is_known(self._after, index):
            return
        if self._journal is not None:
            # What has an id can be resumed. The journal is written while the prompt is computed: few wait for it.
            await wait_at_most(self._journal.answered, FIRST_WRITE_SECONDS)
            self._journal.answered.set()
            place = b"id: %d-%d-%d\n" % (self._begin, self._end, index)
            await self._exchange.send_event(self._encode(content, place))
        else:
            await self._exchange.send_event(self._encode(content))

    def _is_known(self, after: EventId, index: int) -> bool:
        if not self._is_within(after):
            return self._is_before(after)
        self._found = self._found or index == after.index
        return index <= after.index

    def _is_within(self, after: EventId) -> bool:
        return (self._begin, self._end) == (after.begin, after.end)

    def _is_before(self, after: EventId) -> bool:
        return self._end <= after.begin and not self._is_within(after)
