"""Requests of one tenant share cached prefixes and responses only where they name the same secret."""

import itertools
import secrets
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from tests.integration.in_process_platform import Shape, in_process_platform

from headrace import demo_model

pytestmark = pytest.mark.anyio
MODEL = "headrace-demo"
APIS: dict[str, tuple[str, tuple[str, str]]] = {
    "completions": ("prompt", ("prompt_tokens_details", "cached_tokens")),
    "chat/completions": ("messages", ("prompt_tokens_details", "cached_tokens")),
    "responses": ("input", ("input_tokens_details", "cached_tokens")),
}
"""Paths, each with the field of the prompt and the place of the number of cached tokens."""


@pytest.fixture(scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[httpx2.AsyncClient]:
    worker = {"model": MODEL, "folder": demo_model.CHECKPOINT, "thread_count": 1}
    shape = Shape({MODEL: demo_model.CHECKPOINT}, [worker])
    async with (
        in_process_platform(shape, tmp_path_factory.mktemp("platform")) as platform,
        httpx2.AsyncClient(base_url=platform.http, timeout=30) as made,
    ):
        yield made


async def ask(client: httpx2.AsyncClient, path: str, text: str, **fields: Any) -> httpx2.Response:
    name, _ = APIS[path]
    prompt = [{"role": "user", "content": text}] if name == "messages" else text
    limit = "max_output_tokens" if path == "responses" else "max_tokens"
    body = {"model": MODEL, name: prompt, limit: 16, "temperature": 0} | fields
    return await client.post(f"/v1/{path}", json=body, headers={"x-headrace-cache": "on"})


@pytest.mark.parametrize("path", APIS)
async def test_only_the_same_secret_finds_what_was_cached(client: httpx2.AsyncClient, path: str) -> None:
    """The first request of each secret computes the whole prompt; the second finds it, as without a secret."""
    text = f"Say nothing of {secrets.token_hex(64)}."
    salts: list[dict[str, Any]] = [{"cache_salt": secrets.token_urlsafe(32)} for _ in range(2)] + [{}]
    _, (details, cached) = APIS[path]
    counts: list[int] = []
    for salt, _ in itertools.product(salts, range(2)):
        answer = await ask(client, path, text, **salt, top_p=0.5 + len(counts) / 100)
        assert answer.status_code == httpx2.codes.OK, answer.text
        counts.append(answer.json()["usage"][details][cached])
    assert counts[::2] == [0, 0, 0]
    assert min(counts[1::2]) > 0


async def test_a_remembered_response_is_found_with_the_same_secret_alone(client: httpx2.AsyncClient) -> None:
    text = f"Say nothing of {secrets.token_hex(8)}."
    found = []
    for salt in ({"cache_salt": "a"}, {"cache_salt": "b"}, {}, {"cache_salt": "a"}, {"cache_salt": "b"}, {}):
        answer = (await ask(client, "completions", text, timings=True, **salt)).json()
        found.append(answer["timings"]["response_cache"])
    assert found == ["miss"] * 3 + ["hit"] * 3


@pytest.mark.parametrize("path", APIS)
@pytest.mark.parametrize("salt", ["", "x" * 1025, 7])
async def test_what_is_no_secret_is_refused(client: httpx2.AsyncClient, path: str, salt: Any) -> None:
    refused = await ask(client, path, "Hello", cache_salt=salt)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "cache_salt")
