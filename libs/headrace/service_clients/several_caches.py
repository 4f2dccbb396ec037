"""Calls several caches as if they were one."""

import asyncio
import hashlib
import math
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from headrace.domain.kept_parts import KeptParts
from headrace.domain.kept_stream import KeptStream
from headrace.domain.stream_part import StreamPart
from headrace.errors import DeadlineExceeded, HeadraceError, Unavailable
from headrace.kv.held_prefix import HeldPrefix
from headrace.service_clients.cache import WholeCacheClient

SUSPICION_SECONDS = 5.0
"""Seconds for which a cache that did not answer is asked only if there is no other."""
COPIES = 2
"""Number of caches that keep the journal of a stream: a machine that is lost may have had a gateway and a cache."""

T = TypeVar("T")


class SeveralCaches:
    """WholeCacheClient over several others, by name.

    Each response belongs to one cache, by rendezvous hashing of its key (Thaler and Ravishankar, 1996), so a cache that
    comes or goes moves only its own share. The journal of a stream is kept by two. Every cache follows the blocks of
    all workers, so any of them can answer for those.
    """

    def __init__(self, clients: Mapping[str, WholeCacheClient], clock: Callable[[], float] = time.monotonic) -> None:
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

    async def lookup_prefix(self, model: str, block_hashes: Sequence[bytes], timeout: float) -> dict[str, HeldPrefix]:
        name = min(self._clients, key=self._is_suspected)
        return await self._ask(name, lambda cache: cache.lookup_prefix(model, block_hashes, timeout))

    async def keep_streams(self, parts: Sequence[StreamPart], timeout: float, lifetime: float) -> KeptParts:
        by_cache: defaultdict[str, list[StreamPart]] = defaultdict(list)
        for part in parts:
            for name in self._homes(part.stream_id.encode()):
                by_cache[name].append(part)

        def asked(name: str) -> Awaitable[KeptParts]:
            return self._ask(name, lambda cache: cache.keep_streams(by_cache[name], timeout, lifetime))

        answers = await asyncio.gather(*map(asked, by_cache), return_exceptions=True)
        kept = [answer for answer in answers if isinstance(answer, KeptParts)]
        failures = [answer for answer in answers if isinstance(answer, BaseException)]
        for failure in failures:
            if not kept or not isinstance(failure, HeadraceError):
                raise failure
        unknown = frozenset[str]().union(*(answer.unknown for answer in kept))
        return KeptParts(unknown, frozenset[str]().union(*(answer.refused for answer in kept)))

    async def find_stream(self, tenant: str, stream_id: str, timeout: float) -> KeptStream | None:
        """Returns the first journal that any cache answers with. Raises HeadraceError where none answers."""

        def asked(name: str) -> Awaitable[KeptStream | None]:
            return self._ask(name, lambda cache: cache.find_stream(tenant, stream_id, timeout))

        questions = [asyncio.ensure_future(asked(name)) for name in self._clients]
        failure: HeadraceError | None = None
        answer_count = 0
        try:
            for question in asyncio.as_completed(questions):
                try:
                    if (found := await question) is not None:
                        return found
                    answer_count += 1
                except HeadraceError as error:
                    failure = error
        finally:
            for each in questions:
                each.cancel()
        if failure is not None and not answer_count:
            raise failure
        return None

    def _homes(self, key: bytes) -> list[str]:
        """Returns the caches that keep the journal of a stream, without any that is suspected unless all are."""
        known = [name for name in self._clients if not self._is_suspected(name)] or list(self._clients)
        return sorted(known, key=lambda name: _weight(name, key), reverse=True)[:COPIES]

    def _home(self, key: bytes) -> str:
        """Returns the cache that owns a key, or the next one while the owner does not answer."""
        return max(self._clients, key=lambda name: (not self._is_suspected(name), _weight(name, key)))

    def _is_suspected(self, name: str) -> bool:
        return self._clock() - self._suspected[name] < SUSPICION_SECONDS

    async def _ask(self, name: str, call: Callable[[WholeCacheClient], Awaitable[T]]) -> T:
        try:
            answer = await call(self._clients[name])
        except (Unavailable, DeadlineExceeded):
            self._suspected[name] = self._clock()
            raise
        self._suspected[name] = -math.inf
        return answer


def _weight(name: str, key: bytes) -> bytes:
    return hashlib.blake2b(name.encode() + b"\0" + key, digest_size=8).digest()
