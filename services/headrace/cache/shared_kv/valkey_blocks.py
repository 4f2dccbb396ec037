"""KV blocks that workers share in Valkey or Redis, which several caches may use."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import takewhile
from typing import TypeVar

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from headrace.cache.shared_kv.shared_kv_blocks import PACKET_BYTES
from headrace.cache.shared_kv.shared_metrics import DROPPED, FETCHED, FETCHED_BYTES, STORED

PREFIX = b"headrace-kv/"
SCHEMES = {"valkey://": "redis://", "valkeys://": "rediss://"}
"""Schemes of addresses, and the ones that the client library knows."""
CALL_SECONDS = 0.4
"""Longest time of a call: workers wait little longer for the answer."""
REST_SECONDS = 5.0
"""Time after a failed call in which the server is left alone."""
MAX_CONNECTIONS = 16
FIRST_COUNT = 8
"""Records of the first packet, while the size of one is not known."""

_log = logging.getLogger(__name__)
T = TypeVar("T")


class ValkeyBlocks:
    """Implements `SharedBlocks`. The server bounds its memory, and decides which records give way (`maxmemory`,
    `maxmemory-policy allkeys-lru`). A call that fails, or is slow, finds nothing. Runs on the event loop."""

    def __init__(self, url: str) -> None:
        """Connects when first used. Raises ValueError for an address of another kind."""
        self._client: Redis = Redis.from_url(
            _known(url),
            socket_timeout=CALL_SECONDS,
            socket_connect_timeout=CALL_SECONDS,
            max_connections=MAX_CONNECTIONS,
            retry=Retry(NoBackoff(), 1),
        )
        self._resting_until = 0.0
        self._record_bytes = PACKET_BYTES // FIRST_COUNT

    async def held(self, keys: Sequence[bytes]) -> int:
        return sum(takewhile(bool, await self._exist(keys)))

    async def wanted(self, keys: Sequence[bytes]) -> list[bytes]:
        return [key for key, exists in zip(keys, await self._exist(keys), strict=False) if not exists]

    async def read(self, keys: Sequence[bytes]) -> list[bytes]:
        count = max(1, PACKET_BYTES // self._record_bytes)
        wanted = [PREFIX + key for key in keys[:count]]
        found = await self._ask(lambda: self._client.mget(wanted)) or []
        # The library returns texts only where it is asked to decode.
        records = [record for record in takewhile(lambda one: one is not None, found) if isinstance(record, bytes)]
        if records:
            self._record_bytes = max(1, *map(len, records))
        FETCHED.inc(len(records))
        FETCHED_BYTES.inc(sum(map(len, records)))
        return records

    async def write(self, records: Sequence[tuple[bytes, bytes]], seconds: float = 0.0) -> int:
        async def put() -> int:
            async with self._client.pipeline(transaction=False) as pipeline:
                for key, record in records:
                    pipeline.set(PREFIX + key, record)
                return len(await pipeline.execute())

        count = await self._ask(put) if records else 0
        if not count:
            DROPPED.labels(reason="failing" if records else "empty").inc(len(records))
            return 0
        STORED.inc(count)
        return count

    async def close(self) -> None:
        await self._client.aclose()

    async def _exist(self, keys: Sequence[bytes]) -> list[int]:
        """Returns for each key whether it is there. Empty: the server does not answer."""

        async def ask() -> list[int]:
            async with self._client.pipeline(transaction=False) as pipeline:
                for key in keys:
                    pipeline.exists(PREFIX + key)
                found: list[int] = await pipeline.execute()
                return found

        return await self._ask(ask) or []

    async def _ask(self, call: Callable[[], Awaitable[T]]) -> T | None:
        """Returns the answer of the server. None: there is none, or not in time."""
        if time.monotonic() < self._resting_until:
            return None
        try:
            async with asyncio.timeout(CALL_SECONDS):
                return await call()
        except (RedisError, OSError, TimeoutError) as error:
            self._resting_until = time.monotonic() + REST_SECONDS
            _log.warning("the server of shared KV blocks does not answer", extra={"reason": str(error)})
            return None


def _known(url: str) -> str:
    for ours, theirs in SCHEMES.items():
        if url.startswith(ours):
            return theirs + url.removeprefix(ours)
    return url
