"""Each response has one home among the caches, and one that is away costs a call and a share, not the rest."""

from collections.abc import Sequence

import pytest

from headrace.domain.kept_parts import KeptParts
from headrace.domain.kept_stream import KeptStream
from headrace.domain.stream_part import StreamPart
from headrace.errors import Unavailable
from headrace.kv.held_prefix import HeldPrefix
from headrace.service_clients.several_caches import SUSPICION_SECONDS, SeveralCaches

pytestmark = pytest.mark.anyio
KEYS = [bytes([number]) * 8 for number in range(120)]


class Cache:
    """Keeps responses, and answers unless it is away."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, bytes], bytes] = {}
        self.streams: dict[str, bytes] = {}
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

    async def lookup_prefix(self, model: str, block_hashes: Sequence[bytes], timeout: float) -> dict[str, HeldPrefix]:
        self._answer()
        return {"w": HeldPrefix(len(block_hashes))}

    async def keep_streams(self, parts: Sequence[StreamPart], timeout: float, lifetime: float) -> KeptParts:
        self._answer()
        self.streams |= {part.stream_id: part.record for part in parts if part.record}
        return KeptParts(frozenset(part.stream_id for part in parts if part.stream_id not in self.streams))

    async def find_stream(self, tenant: str, stream_id: str, timeout: float) -> KeptStream | None:
        self._answer()
        record = self.streams.get(stream_id)
        return None if record is None else KeptStream(record, ())


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
        assert await client.lookup_prefix("m", [key], 1) == {"w": HeldPrefix(1)} or failures == 1
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


def part(name: str, record: bytes = b"record") -> StreamPart:
    return StreamPart("t", name, record, 0, 0, b"")


async def test_a_stream_is_kept_by_two_and_found_while_one_of_them_answers() -> None:
    caches = {name: Cache() for name in "abc"}
    client = SeveralCaches(caches)
    names = [str(number) for number in range(60)]
    assert not (await client.keep_streams([part(name) for name in names], 1, 60)).unknown
    assert sum(len(cache.streams) for cache in caches.values()) == 2 * len(names)
    assert all(len(cache.streams) > 20 for cache in caches.values())
    caches["a"].away = True
    for name in names:
        assert await client.find_stream("t", name, 1) == KeptStream(b"record", ())
    assert await client.find_stream("t", "unknown", 1) is None


async def test_a_stream_whose_cache_is_away_is_written_whole_to_another() -> None:
    caches, clock = {name: Cache() for name in "abc"}, Clock()
    client = SeveralCaches(caches, clock)
    await client.keep_streams([part("s")], 1, 60)
    home = next(cache for cache in caches.values() if cache.streams)
    home.away = True
    assert not (await client.keep_streams([part("s", b"")], 1, 60)).unknown
    assert (await client.keep_streams([part("s", b"")], 1, 60)).unknown == {"s"}
    assert not (await client.keep_streams([part("s")], 1, 60)).unknown
    assert sum(bool(cache.streams) for cache in caches.values()) == 3


async def test_no_cache_that_answers_is_an_error() -> None:
    caches = {name: Cache() for name in "ab"}
    client = SeveralCaches(caches)
    for cache in caches.values():
        cache.away = True
    with pytest.raises(Unavailable):
        await client.keep_streams([part("s")], 1, 60)
    with pytest.raises(Unavailable):
        await client.find_stream("t", "s", 1)
