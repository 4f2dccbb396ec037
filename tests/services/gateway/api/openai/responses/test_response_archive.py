"""A response in the background is unfinished for as long as somebody writes it, and failed after that."""

from collections.abc import Sequence

import pytest

from headrace.gateway.access.tenant import PUBLIC
from headrace.gateway.api.openai.responses.response_archive import SIGN_OF_LIFE_SECONDS, ResponseArchive
from headrace.gateway.api.openai.responses.stored_response import StoredResponse
from headrace.kv.held_prefix import HeldPrefix

pytestmark = pytest.mark.anyio


class FakeCache:
    """Keeps what it is given until its time, which passes when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self._kept: dict[tuple[str, bytes], tuple[bytes, float]] = {}

    async def lookup_response(self, tenant: str, key: bytes, timeout: float) -> bytes | None:
        value, until = self._kept.get((tenant, key), (b"", -1.0))
        return value if self.now < until else None

    async def store_response(
        self, tenant: str, key: bytes, value: bytes, timeout: float, lifetime: float | None = None
    ) -> None:
        assert lifetime is not None
        self._kept[tenant, key] = value, self.now + lifetime

    async def lookup_prefix(self, model: str, block_hashes: Sequence[bytes], timeout: float) -> dict[str, HeldPrefix]:
        raise NotImplementedError


def response(status: str) -> StoredResponse:
    return StoredResponse({"id": "resp_1", "status": status, "error": None})


@pytest.mark.parametrize("status", ["queued", "in_progress"])
async def test_a_response_that_nobody_writes_any_more_has_failed(status: str) -> None:
    cache = FakeCache()
    archive = ResponseArchive(cache)
    assert await archive.put(PUBLIC, response(status))
    for _ in range(3):
        assert await archive.tell_running(PUBLIC, "resp_1")
        cache.now += 0.9 * SIGN_OF_LIFE_SECONDS
        assert (await archive.get(PUBLIC, "resp_1")).response["status"] == status
    cache.now += 0.2 * SIGN_OF_LIFE_SECONDS
    gone = (await archive.get(PUBLIC, "resp_1")).response
    assert gone["status"] == "failed"
    assert "create the response again" in gone["error"]["message"]


async def test_a_finished_response_needs_nobody() -> None:
    archive = ResponseArchive(FakeCache())
    assert await archive.put(PUBLIC, response("completed"))
    assert (await archive.get(PUBLIC, "resp_1")).response == response("completed").response
