"""Ids of events are read back, and nothing else is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InvalidRequest
from headrace.gateway.resumption.event_id import EventId


@given(st.integers(0, 10**9 - 1), st.integers(0, 10**9 - 1), st.integers(0, 10**6 - 1))
def test_an_id_is_read_back(one: int, other: int, index: int) -> None:
    place = EventId(min(one, other), max(one, other), index)
    assert EventId.parse(str(place), "after") == place


@given(st.text(max_size=2000))
def test_anything_else_is_refused_in_few_words(text: str) -> None:
    if text.count("-") == 2 and all(part.isdecimal() for part in text.split("-")):
        return
    with pytest.raises(InvalidRequest, match="send the id of the last event") as failure:
        EventId.parse(text, "after")
    assert len(failure.value.message) < 700


@pytest.mark.parametrize("text", ["2-1-0", "1-2", "1-2-3-4", "٣-٤-٠", "1-2-0 ", "1-2-0\n", "1234567890-1-0"])
def test_what_resembles_an_id_is_none(text: str) -> None:
    with pytest.raises(InvalidRequest):
        EventId.parse(text, "after")
