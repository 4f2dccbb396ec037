"""Deltas are cut where the client's event was cut, and no token is lost or repeated."""

from collections.abc import AsyncGenerator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InvalidRequest
from headrace.gateway.delivery.streams.regrouped import regrouped
from headrace.gateway.resumption.event_id import EventId
from headrace.v1.generation_pb2 import FINISH_REASON_STOP
from headrace.v1.worker_pb2 import TokenDelta

pytestmark = pytest.mark.anyio


async def source(sizes: list[int]) -> AsyncGenerator[TokenDelta, None]:
    first = 0
    for number, size in enumerate(sizes):
        reason = FINISH_REASON_STOP if number == len(sizes) - 1 else 0
        yield TokenDelta(
            first_index=first,
            token_ids=range(first, first + size),
            cached_token_count=0 if first else 2,
            finish_reason=reason,  # type: ignore[arg-type]
        )
        first += size


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.integers(0, 40), st.integers(0, 40))
async def test_every_place_gives_its_group(sizes: list[int], one: int, other: int) -> None:
    count, place = sum(sizes), EventId(min(one, other), max(one, other), 0)
    if place.end > count:
        with pytest.raises(InvalidRequest):
            [delta async for delta in regrouped(source(sizes), place)]
        return
    deltas = [delta async for delta in regrouped(source(sizes), place)]
    assert [token_id for delta in deltas for token_id in delta.token_ids] == list(range(count))
    groups = [(delta.first_index, delta.first_index + len(delta.token_ids)) for delta in deltas]
    assert (place.begin, place.end) in groups
    assert [bool(delta.finish_reason) for delta in deltas][-1] is True
    assert sum(bool(delta.finish_reason) for delta in deltas) == 1
    assert deltas[0].cached_token_count == 2


async def test_a_long_beginning_comes_in_parts() -> None:
    deltas = [delta async for delta in regrouped(source([5000, 1]), EventId(4000, 4001, 0))]
    assert [len(delta.token_ids) for delta in deltas] == [1024, 1024, 1024, 928, 1, 999, 1]
