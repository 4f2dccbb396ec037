"""Numbered events resume after a given id; an id that no event has is an error."""

from typing import Any

import pytest

from headrace.domain.deadline import Deadline
from headrace.domain.ids import RequestId
from headrace.errors import InvalidRequest
from headrace.gateway.access.tenant import PUBLIC
from headrace.gateway.api.entry.numbered_events import NumberedEvents
from headrace.gateway.delivery.text_stream import Piece
from headrace.gateway.request.answer_name import AnswerName
from headrace.gateway.request.envelope import Envelope
from headrace.gateway.resumption.event_id import EventId
from headrace.gateway.resumption.stream_journal import StreamJournal
from headrace.gateway.resumption.streamed_request import StreamedRequest

pytestmark = pytest.mark.anyio
PIECES = [Piece(begin=0, end=0), Piece(begin=0, end=2), Piece(begin=2, end=2), Piece(begin=2, end=5)]
COUNTS = [1, 2, 0, 3]
"""Events of each piece."""
IDS = ["0-0-0", "0-2-0", "0-2-1", "2-5-0", "2-5-1", "2-5-2"]


class Sink:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    async def send_event(self, event: bytes) -> None:
        self.written.append(event)


async def write(after: EventId | None, *, is_journaled: bool = True) -> list[str]:
    envelope = Envelope(RequestId("r"), 0.0, Deadline.after(5), PUBLIC, "", use_cache=False)
    request = StreamedRequest("", "/v1/x", b"", {}, "m", AnswerName("a"), 0, 0.0)
    journal = StreamJournal("s", request, envelope, None, after) if is_journaled else None
    sink: Any = Sink()
    events = NumberedEvents(sink, journal)
    for piece, count in zip(PIECES, COUNTS, strict=True):
        events.begin(piece)
        for _ in range(count):
            await events.send({})
    events.pass_known()
    return [event.decode() for event in sink.written]


@pytest.mark.parametrize("count", range(len(IDS) + 1))
async def test_the_rest_follows_each_event(count: int) -> None:
    begin, end, index = map(int, IDS[count - 1].split("-"))
    place = EventId(begin, end, index) if count else None
    assert await write(place) == [f"data: {{}}\nid: {name}\n\n" for name in IDS[count:]]


@pytest.mark.parametrize("place", [(0, 0, 1), (0, 2, 2), (2, 5, 3), (2, 2, 0), (5, 5, 0), (5, 9, 0)])
async def test_a_place_that_is_none_is_an_error(place: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidRequest, match="no event of this stream"):
        await write(EventId(*place))


async def test_a_stream_without_a_journal_has_no_ids() -> None:
    assert await write(None, is_journaled=False) == ["data: {}\n\n"] * len(IDS)
