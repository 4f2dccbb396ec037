"""Queries that ask for the events of a response."""

import pytest

from headrace.errors import InvalidRequest
from headrace.gateway.api.openai.responses.stream_query import StreamQuery, read_stream_query


@pytest.mark.parametrize(
    ("query", "wish"),
    [
        (b"", StreamQuery()),
        (b"stream=false&include=x", StreamQuery()),
        (b"stream=true", StreamQuery(is_stream=True)),
        (b"stream=True&starting_after=41", StreamQuery(is_stream=True, starting_after=41)),
    ],
)
def test_a_wish_is_read(query: bytes, wish: StreamQuery) -> None:
    assert read_stream_query(query) == wish


@pytest.mark.parametrize(
    ("query", "param"),
    [
        (b"stream=yes", "stream"),
        (b"starting_after=4", "starting_after"),
        (b"stream=true&starting_after=-1", "starting_after"),
        (b"stream=true&starting_after=" + b"9" * 5000, "starting_after"),
        (b"stream=true&starting_after=%C2%B2", "starting_after"),
    ],
)
def test_a_query_that_cannot_be_followed_names_the_parameter(query: bytes, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_stream_query(query)
    assert refused.value.param == param
