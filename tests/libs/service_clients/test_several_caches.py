"""Each response has one home among the caches, and one that is away costs a call and a share, not the rest."""

from collections.abc import Sequence

import pytest

from headrace.errors import Unavailable
from headrace.service_clients.several_caches import SUSPICION_SECONDS, SeveralCaches

pytestmark = pytest.mark.anyio
KEYS = [bytes([number]) * 8 for number in range(120)]


class Cache:
    """Keeps responses, and answers unless it is away."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, bytes], bytes] = {}
        self.away = False
        self.calls = 0

    def _answer(self) -> None:
        self.calls += 1
        if self.away:
            raise Unavailable("the cache is away")

    async def lookup_response(self, tenant: str, key: bytes, timeout: float) -> bytes | None:
        self._answer()
        return self.kept.get((tenant, key))

    async def store_response(
        self, tenant: str, key: bytes, value: bytes, timeout: float, lifetime: float | None = None
    ) -> None:
        self._answer()
        self.kept[tenant, key] = value

    async def lookup_prefix(self, model: str, block_hashes: Sequence[bytes], timeout: float) -> dict[str, int]:
        self._answer()
        return {"w": len(block_hashes)}


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_every_response_is_found_again_and_the_keys_are_shared_out() -> None:
    caches = {name: Cache() for name in "abc"}
    client = SeveralCaches(caches)
    for key in KEYS:
        await client.store_response("t", key, key, 1)
        assert await client.lookup_response("t", key, 1) == key
        assert await client.lookup_response("other", key, 1) is None
    assert sum(len(cache.kept) for cache in caches.values()) == len(KEYS)
    assert all(len(cache.kept) > len(KEYS) / 6 for cache in caches.values())


async def test_one_that_goes_takes_only_its_own_share_with_it() -> None:
    caches = {name: Cache() for name in "abc"}
    client = SeveralCaches(caches)
    for key in KEYS:
        await client.store_response("t", key, key, 1)
    fewer = SeveralCaches({name: caches[name] for name in "ab"})
    found = [await fewer.lookup_response("t", key, 1) for key in KEYS]
    assert found.count(None) == len(caches["c"].kept)


async def test_a_cache_that_is_away_is_asked_once_in_a_while() -> None:
    caches, clock = {name: Cache() for name in "ab"}, Clock()
    client = SeveralCaches(caches, clock)
    caches["a"].away = True
    failures = 0
    for key in KEYS:
        try:
            await client.store_response("t", key, key, 1)
        except Unavailable:
            failures += 1
        assert await client.lookup_prefix("m", [key], 1) == {"w": 1} or failures == 1
    assert failures == 1
    assert caches["a"].calls == 1
    caches["a"].away = False
    clock.now += SUSPICION_SECONDS
    for key in KEYS:
        await client.store_response("t", key, key, 1)
    assert caches["a"].kept


async def test_all_away_is_an_error_and_no_endless_search() -> None:
    cache = Cache()
    cache.away = True
    client = SeveralCaches({"a": cache})
    for _ in range(3):
        with pytest.raises(Unavailable):
            await client.lookup_response("t", b"k", 1)
    assert cache.calls == 3
