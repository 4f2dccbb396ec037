"""The cache says what it does not keep."""

from pathlib import Path
from typing import Any, cast

import pytest

from headrace.cache.prefix_index import PrefixIndex
from headrace.cache.response_store import ResponseStore
from headrace.cache.servicer import CacheServicer
from headrace.cache.stream_journals import StreamJournals
from headrace.errors import NotFound, PayloadTooLarge
from headrace.v1.cache_pb2 import FindStreamRequest, KeepStreamsRequest, StoreResponseRequest, StreamPart

pytestmark = pytest.mark.anyio
MEGABYTE = 2**20


def servicer_of(store: ResponseStore) -> CacheServicer:
    return CacheServicer(store, PrefixIndex(16), StreamJournals(MEGABYTE), 10)


async def test_a_response_that_is_too_large_is_refused(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path, 4 * MEGABYTE)
    servicer, context = servicer_of(store), cast("Any", None)
    with pytest.raises(PayloadTooLarge):
        await servicer.StoreResponse(StoreResponseRequest(key=b"key", value=bytes(MEGABYTE)), context)
    await servicer.StoreResponse(StoreResponseRequest(key=b"key", value=b"value"), context)
    assert store.get("", b"key") == b"value"
    store.close()


async def test_a_stream_that_is_not_known_is_not_found_and_no_part_of_it_is_kept(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path, 4 * MEGABYTE)
    servicer, context = servicer_of(store), cast("Any", None)
    request = KeepStreamsRequest(parts=[StreamPart(tenant="t", stream_id="a", first_index=3, tokens=b"x")])
    request.lifetime.seconds = 60
    assert (await servicer.KeepStreams(request, context)).unknown_stream_ids == ["a"]
    with pytest.raises(NotFound):
        await servicer.FindStream(FindStreamRequest(tenant="t", stream_id="a"), context)
    request.parts[0].first_index, request.parts[0].record = 0, b"record"
    assert not (await servicer.KeepStreams(request, context)).unknown_stream_ids
    found = await servicer.FindStream(FindStreamRequest(tenant="t", stream_id="a"), context)
    assert (found.record, list(found.parts)) == (b"record", [b"x"])
    store.close()
