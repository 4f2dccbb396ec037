"""Calls several caches as if they were one."""

import hashlib
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from headrace.errors import DeadlineExceeded, Unavailable
from headrace.service_clients.cache import CacheClient

SUSPICION_SECONDS = 5.0
"""Seconds for which a cache that did not answer is asked only if there is no other."""

T = TypeVar("T")


class SeveralCaches:
    """CacheClient over several others, by name.

    Each response belongs to one cache, by rendezvous hashing of its key (Thaler and Ravishankar, 1996), so a cache that
    comes or goes moves only its own share. Every cache follows the blocks of all workers, so any of them can answer for
    those.
    """

    def __init__(self, clients: Mapping[str, CacheClient], clock: Callable[[], float] = time.monotonic) -> None:
        self._clients = dict(clients)
        self._clock = clock
        self._suspected = dict.fromkeys(clients, -math.inf)
        """Time at which each cache last failed to answer, in monotonic seconds."""

    async def lookup_response(self, tenant: str, key: bytes, timeout: float) -> bytes | None:
        return await self._ask(self._home(key), lambda cache: cache.lookup_response(tenant, key, timeout))

    async def store_response(
        self, tenant: str, key: bytes, value: bytes, timeout: float, lifetime: float | None = None
    ) -> None:
        await self._ask(self._home(key), lambda cache: cache.store_response(tenant, key, value, timeout, lifetime))

    async def lookup_prefix(self, model: str, block_hashes: Sequence[bytes], timeout: float) -> dict[str, int]:
        name = min(self._clients, key=self._is_suspected)
        return await self._ask(name, lambda cache: cache.lookup_prefix(model, block_hashes, timeout))

    def _home(self, key: bytes) -> str:
        """Returns the cache that owns a key, or the next one while the owner does not answer."""
        return max(self._clients, key=lambda name: (not self._is_suspected(name), _weight(name, key)))

    def _is_suspected(self, name: str) -> bool:
        return self._clock() - self._suspected[name] < SUSPICION_SECONDS

    async def _ask(self, name: str, call: Callable[[CacheClient], Awaitable[T]]) -> T:
        try:
            answer = await call(self._clients[name])
        except (Unavailable, DeadlineExceeded):
            self._suspected[name] = self._clock()
            raise
        self._suspected[name] = -math.inf
        return answer


def _weight(name: str, key: bytes) -> bytes:
    return hashlib.blake2b(name.encode() + b"\0" + key, digest_size=8).digest()
