"""Deltas of one token each."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from headrace.gateway.resumption.translation import singles
from headrace.v1.worker_pb2 import TokenDelta

TURN_COUNT = 256
"""Number of tokens of one delta that are read at once: others get their turn in between."""


async def one_by_one(deltas: AsyncGenerator[TokenDelta, None]) -> AsyncGenerator[TokenDelta, None]:
    """Yields the tokens of each delta one by one. A delta without tokens stays as it is."""
    async with aclosing(deltas):
        async for delta in deltas:
            if len(delta.token_ids) < 2:
                yield delta
                continue
            for index, single in enumerate(singles(delta)):
                if index and index % TURN_COUNT == 0:
                    await asyncio.sleep(0)
                yield single
