"""Splitting deltas into single tokens loses nothing."""

from collections.abc import AsyncGenerator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.gateway.delivery.streams.one_by_one import TURN_COUNT, one_by_one
from headrace.gateway.resumption.translation import add_delta
from headrace.v1.generation_pb2 import FINISH_REASON_LENGTH, ScoredToken, TokenLogprob
from headrace.v1.worker_pb2 import TokenDelta

pytestmark = pytest.mark.anyio


def deltas_of(sizes: list[int]) -> list[TokenDelta]:
    """Returns deltas of such sizes that follow each other, the last with the end."""
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    made = [
        TokenDelta(
            first_index=start,
            token_ids=range(start, start + size),
            logprobs=[TokenLogprob(chosen=ScoredToken(token_id=index)) for index in range(start, start + size)],
        )
        for start, size in zip(starts, sizes, strict=True)
    ]
    made[0].cached_token_count = 3
    made[-1].finish_reason = FINISH_REASON_LENGTH
    return made


async def taken(deltas: list[TokenDelta]) -> list[TokenDelta]:
    async def source() -> AsyncGenerator[TokenDelta, None]:
        for delta in deltas:
            yield delta

    return [delta async for delta in one_by_one(source())]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8))
async def test_they_add_up_whatever_came_together(sizes: list[int]) -> None:
    whole, joined = TokenDelta(), TokenDelta()
    for delta in deltas_of(sizes):
        add_delta(whole, delta)
    singles = await taken(deltas_of(sizes))
    for delta in singles:
        add_delta(joined, delta)
    assert joined == whole
    assert all(len(delta.token_ids) <= 1 for delta in singles)


async def test_many_at_once_are_cut_too() -> None:
    assert len(await taken(deltas_of([3 * TURN_COUNT]))) == 3 * TURN_COUNT
