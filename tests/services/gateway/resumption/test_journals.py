"""Journals are written beside the streams, and caches that are away cost the streams nothing."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.services.gateway.resumption.test_stream_journal import REQUEST, TENANT, delta, envelope

from headrace.cache.stream_journals import StreamJournals
from headrace.domain.kept_parts import KeptParts
from headrace.domain.kept_stream import KeptStream
from headrace.domain.stream_part import StreamPart
from headrace.errors import NotEnabled, NotFound, Unavailable
from headrace.gateway.access.caller import ANYONE
from headrace.gateway.config import GatewaySettings
from headrace.gateway.resumption.journals import MAX_BODY_BYTES, MAX_FAILURES, Journals

pytestmark = pytest.mark.anyio


class MemoryCache:
    """A cache in this process."""

    def __init__(self) -> None:
        self.journals = StreamJournals(2**20)
        self.is_away = False
        self.call_count = 0

    async def keep_streams(self, parts: Sequence[StreamPart], timeout: float, lifetime: float) -> KeptParts:
        self.call_count += 1
        if self.is_away:
            raise Unavailable("the cache is away")
        return self.journals.keep(parts, lifetime)

    async def find_stream(self, tenant: str, stream_id: str, timeout: float) -> KeptStream | None:
        return self.journals.find(tenant, stream_id)


async def test_a_stream_is_found_at_another_gateway() -> None:
    cache = MemoryCache()
    one, other = (Journals(GatewaySettings(), cache) for _ in range(2))
    mine = replace(REQUEST, key_id="")
    with one.opened("s", mine, envelope(), None) as journal:
        journal.note(delta(0, 3))
        await one.write()
        journal.note(delta(3, 2))
        found = await other.find("s", ANYONE, None)
        assert list(found.known.token_ids) == [0, 1, 2]
        assert list((await one.find("s", ANYONE, None)).known.token_ids) == [0, 1, 2, 3, 4]
    await one.write()
    assert len(one) == 0
    assert len((await other.find("s", ANYONE, None)).known.token_ids) == 5
    with other.opened("s", mine, envelope(), found) as journal:
        assert list(journal.known.token_ids) == [0, 1, 2]


async def test_a_stream_of_a_key_is_as_unknown_as_one_that_is_not_there() -> None:
    journals = Journals(GatewaySettings(), MemoryCache())
    with journals.opened("s", REQUEST, envelope(), None):
        messages = set()
        for name in ("s", "other"):
            with pytest.raises(NotFound) as failure:
                await journals.find(name, ANYONE, None)
            messages.add(failure.value.message.replace(f"stream {name}:", ""))
        assert len(messages) == 1


async def test_caches_that_are_away_are_asked_a_few_times_and_then_the_stream_is_left() -> None:
    cache = MemoryCache()
    cache.is_away = True
    journals = Journals(GatewaySettings(), cache)
    with journals.opened("s", REQUEST, envelope(), None) as journal:
        journal.note(delta(0, 3))
        await journals.write()
    for _ in range(MAX_FAILURES):
        await journals.write()
    assert (len(journals), cache.call_count) == (0, MAX_FAILURES)


async def test_a_cache_that_starts_again_gets_the_whole() -> None:
    cache = MemoryCache()
    journals = Journals(GatewaySettings(), cache)
    with journals.opened("s", REQUEST, envelope(), None) as journal:
        journal.note(delta(0, 3))
        await journals.write()
        cache.journals = StreamJournals(2**20)
        journal.note(delta(3, 1))
        await journals.write()
        await journals.write()
        found = cache.journals.find(TENANT, "s")
        assert found is not None
        assert found.record


async def test_a_stream_that_a_cache_refuses_is_left() -> None:
    cache = MemoryCache()
    cache.journals = StreamJournals(64)
    journals = Journals(GatewaySettings(), cache)
    with journals.opened("s", REQUEST, envelope(), None):
        await journals.write()
        assert len(journals) == 0


async def test_the_task_writes_at_once_and_then_at_intervals() -> None:
    cache = MemoryCache()
    journals = Journals(GatewaySettings(), cache)
    task = asyncio.create_task(journals.watch())
    with journals.opened("s", REQUEST, envelope(), None):
        async with asyncio.timeout(10):
            while cache.journals.find(TENANT, "s") is None:  # noqa: ASYNC110 - it can only be asked
                await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await journals.close()
    assert len(journals) == 0


async def test_without_seconds_nothing_is_kept() -> None:
    journals = Journals(GatewaySettings(resume_seconds=0), MemoryCache())
    assert not journals.takes(b"")
    with pytest.raises(NotEnabled, match="resume_seconds"):
        await journals.find("s", ANYONE, None)
    await journals.watch()
    assert not Journals(GatewaySettings(), MemoryCache()).takes(bytes(MAX_BODY_BYTES + 1))
