"""A stream is resumed for the key that began it alone, which pays each token once."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.integration.in_process_platform import Shape, in_process_platform
from tests.integration.test_resumed_streams_in_process import MODEL, begin, resume, said

from headrace import demo_model
from headrace.access.key_file import KeyFile

pytestmark = pytest.mark.anyio
SECONDS = 60.0
TOKENS = 60


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, str]:
    """Keys of two tenants, by name."""
    file = KeyFile(tmp_path / "keys")
    return {name: file.create(name, tenant)[0].text for name, tenant in (("a", "one"), ("b", "one"), ("c", "two"))}


@pytest.fixture
async def client(tmp_path: Path, keys: dict[str, str]) -> AsyncIterator[httpx2.AsyncClient]:
    settings = {"keys_file": tmp_path / "keys", "usage_folder": tmp_path / "usage"}
    worker = {"model": MODEL, "engine": "sim", "sim_base_seconds": 0.005}
    shape = Shape({MODEL: demo_model.CHECKPOINT}, [worker], {"gateway": settings})
    headers = {"authorization": f"Bearer {keys['a']}"}
    async with (
        in_process_platform(shape, tmp_path / "platform") as platform,
        httpx2.AsyncClient(base_url=platform.http, timeout=SECONDS, headers=headers) as opened,
    ):
        yield opened


async def test_a_stream_belongs_to_the_key_that_began_it(client: httpx2.AsyncClient, keys: dict[str, str]) -> None:
    begun = await begin(client, "chat", 3)
    stream, after = begun[0].data["id"], begun[-1].id
    refusals = set()
    for name in "bc":
        headers = {"authorization": f"Bearer {keys[name]}"}
        for known in (stream, "chatcmpl-unknown"):
            response = await client.get(f"/headrace/streams/{known}", headers=headers)
            assert response.status_code == 404
            refusals.add(response.json()["error"]["message"].replace(known, "X"))
    assert len(refusals) == 1
    assert (await client.get(f"/headrace/streams/{stream}", headers={"authorization": ""})).status_code == 401
    assert said([*begun, *await resume(client, stream, after)]) == said(await resume(client, stream))


async def usage(client: httpx2.AsyncClient) -> tuple[int, int]:
    (row,) = (await client.get("/headrace/usage", params={"by": "model"})).json()["data"]
    return row["prompt_tokens"], row["output_tokens"]


async def test_each_token_is_paid_once(client: httpx2.AsyncClient) -> None:
    fields: dict[str, Any] = {"max_tokens": TOKENS, "ignore_eos": True}
    whole = said(await begin(client, "chat", **fields))["usage"]
    assert await usage(client) == (whole["prompt_tokens"], TOKENS)
    begun = await begin(client, "chat", 3, **fields)
    await resume(client, begun[0].data["id"], begun[-1].id)
    assert len(await resume(client, begun[0].data["id"])) > 0
    expected = (2 * whole["prompt_tokens"], 2 * TOKENS)
    async with asyncio.timeout(SECONDS):
        while await usage(client) != expected:
            assert (await usage(client)) <= expected
            await asyncio.sleep(0.05)


async def test_a_newer_reader_ends_an_older_one_at_the_same_gateway(client: httpx2.AsyncClient) -> None:
    body = {"model": MODEL, "prompt": "a", "max_tokens": 400, "ignore_eos": True, "stream": True}
    async with client.stream("POST", "/v1/completions", json=body) as older:
        lines = older.aiter_lines()
        stream = json.loads((await anext(lines))[6:])["id"]
        newer = await resume(client, stream)
        rest = [line async for line in lines if line.startswith("data: ")]
    assert "a newer request has resumed this stream" in rest[-1]
    assert said(newer)["finish"] == ["length"]
    assert len(said(newer)["text"]) > 400
