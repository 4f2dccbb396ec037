"""Deltas cut where those of an earlier request were cut, so that they make the same events."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from headrace.gateway.resumption.event_id import EventId
from headrace.gateway.resumption.stream_journal import impossible
from headrace.gateway.resumption.translation import add_delta, part_of
from headrace.v1.worker_pb2 import TokenDelta

MAX_PART_COUNT = 1024
"""Maximum number of known tokens that are read at once: others get their turn between two parts."""


async def regrouped(deltas: AsyncGenerator[TokenDelta, None], place: EventId) -> AsyncGenerator[TokenDelta, None]:
    """Yields the deltas of a sequence, cut at `place.begin` and `place.end`, with all tokens between as one. Raises
    InvalidRequest, before it yields any, for a sequence that is shorter."""
    known = TokenDelta()
    async with aclosing(deltas):
        async for delta in deltas:
            add_delta(known, delta)
            if len(known.token_ids) >= place.end or known.finish_reason:
                break
        if len(known.token_ids) < place.end:
            raise impossible(place)
        for begin in range(0, place.begin, MAX_PART_COUNT):
            end = min(begin + MAX_PART_COUNT, place.begin)
            yield part_of(known, begin, end, is_first=begin == 0, is_last=False)
            await asyncio.sleep(0)
        count = len(known.token_ids)
        yield part_of(known, place.begin, place.end, is_first=place.begin == 0, is_last=place.end == count)
        if count > place.end:
            yield part_of(known, place.end, count, is_first=False, is_last=True)
        async for delta in deltas:
            yield delta
