"""The cache says what it does not keep."""

from pathlib import Path
from typing import Any, cast

import pytest

from headrace.cache.prefix_index import PrefixIndex
from headrace.cache.response_store import ResponseStore
from headrace.cache.servicer import CacheServicer
from headrace.errors import PayloadTooLarge
from headrace.v1.cache_pb2 import StoreResponseRequest

pytestmark = pytest.mark.anyio
MEGABYTE = 2**20


async def test_a_response_that_is_too_large_is_refused(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path, 4 * MEGABYTE)
    servicer, context = CacheServicer(store, PrefixIndex(16), 10), cast("Any", None)
    with pytest.raises(PayloadTooLarge):
        await servicer.StoreResponse(StoreResponseRequest(key=b"key", value=bytes(MEGABYTE)), context)
    await servicer.StoreResponse(StoreResponseRequest(key=b"key", value=b"value"), context)
    assert store.get("", b"key") == b"value"
    store.close()
