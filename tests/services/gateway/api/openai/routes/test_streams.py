"""The place at which a stream is resumed comes from the address or from a header."""

import pytest

from headrace.errors import InvalidRequest
from headrace.gateway.api.openai.routes.streams import place_of
from headrace.gateway.resumption.event_id import EventId


@pytest.mark.parametrize(
    ("query", "header", "expected"),
    [
        (b"", None, None),
        (b"after=", "", None),
        (b"after=1-2-0", None, EventId(1, 2, 0)),
        (b"", "3-3-1", EventId(3, 3, 1)),
        (b"after=1-2-0", "3-4-0", EventId(3, 4, 0)),
    ],
)
def test_the_header_of_a_browser_that_comes_back_goes_first(
    query: bytes, header: str | None, expected: EventId | None
) -> None:
    assert place_of(query, header) == expected


@pytest.mark.parametrize(
    ("query", "header", "message"),
    [
        (b"after=x", None, "not the id of an event"),
        (b"", "x" * 9000, "not the id of an event"),
        (b"starting_after=3", None, "there is after"),
        (b"after=%ff", None, "not the id of an event"),
    ],
)
def test_anything_else_is_refused(query: bytes, header: str | None, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        place_of(query, header)
