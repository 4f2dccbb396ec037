"""Stages of a request explain its wall time, streamed or not, alone and under load."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from tests.integration.in_process_platform import InProcessPlatform, Shape, in_process_platform

from headrace import demo_model

pytestmark = pytest.mark.anyio
MODEL = "headrace-demo"
STREAMS = 24
KNOWN_SHARE = 0.3
"""Share of the time that a client sees. It and the gateway take turns on one event loop."""
ON_THE_WAY = {"receive", "parse", "admission", "tokenize", "queue", "dispatch", "worker_queue", "prefill", "decode"}


@pytest.fixture(scope="module", params=["sim", "demo"])
async def platform(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Any]:
    """A platform that plays a model, and one that computes the bundled one."""
    played: dict[str, Any] = {"model": MODEL, "engine": "sim", "sim_base_seconds": 0.005}
    computed: dict[str, Any] = {"model": MODEL, "folder": demo_model.CHECKPOINT, "thread_count": 1}
    shape = Shape({MODEL: demo_model.CHECKPOINT}, [played if request.param == "sim" else computed])
    async with in_process_platform(shape, tmp_path_factory.mktemp("platform")) as made:
        yield made


@pytest.fixture
async def client(platform: InProcessPlatform) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=platform.http, timeout=30.0) as made:
        yield made


def completion(**fields: Any) -> dict[str, Any]:
    body = {"model": MODEL, "prompt": "Where does the time go?", "max_tokens": 24, "temperature": 0}
    return body | {"ignore_eos": True, "timings": True} | fields


async def wall_of(client: httpx2.AsyncClient, name: str, **fields: Any) -> float:
    """Milliseconds from before the request was written until its answer was read whole."""
    began = time.monotonic()
    response = await client.post("/v1/completions", json=completion(**fields), headers={"x-request-id": name})
    assert response.status_code == 200
    return (time.monotonic() - began) * 1000


async def show(client: httpx2.AsyncClient, name: str, **expected: Any) -> dict[str, Any]:
    """Record of a request, which is written right after the answer."""
    async with asyncio.timeout(5):
        while True:
            response = await client.get(f"/headrace/requests/{name}")
            if response.status_code == 200 and expected.items() <= response.json().items():
                found: dict[str, Any] = response.json()
                return found
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("n", [1, 3])
async def test_stages_add_up_to_what_the_gateway_saw(client: httpx2.AsyncClient, stream: bool, n: int) -> None:
    wall = await wall_of(client, name := f"alone-{stream}-{n}", stream=stream, n=n)
    found = await show(client, name)
    total = found["total_ms"]
    assert set(found["stages_ms"]) >= ON_THE_WAY
    assert sum(found["stages_ms"].values()) == pytest.approx(total, rel=0.001)
    assert found["output_tokens"] == 24 * n
    # The rest is the client's own, on the same event loop.
    assert total <= wall
    assert total > KNOWN_SHARE * wall


async def test_stages_add_up_under_load(client: httpx2.AsyncClient) -> None:
    """The longest request of a crowd took much of the time of the crowd: the gateway knew of it from its first byte."""
    began = time.monotonic()
    await asyncio.gather(*(wall_of(client, f"r{number}", stream=number % 2 == 0) for number in range(STREAMS)))
    crowd = (time.monotonic() - began) * 1000
    found = [await show(client, f"r{number}") for number in range(STREAMS)]
    for record in found:
        assert sum(record["stages_ms"].values()) >= 0.95 * record["total_ms"]
    assert max(record["total_ms"] for record in found) > KNOWN_SHARE * crowd


async def test_a_whole_answer_tells_its_timings(client: httpx2.AsyncClient) -> None:
    response = await client.post("/v1/completions", json=completion())
    timings, header = response.json()["timings"], response.headers["server-timing"]
    assert timings["output_tokens"] == 24
    assert timings["worker"] == "worker-0"
    assert timings["tokens_per_second"] > 0
    assert timings["ttft_ms"] < timings["total_ms"]
    assert {part.partition(";")[0] for part in header.split(", ")} >= ON_THE_WAY
    assert (
        sum(float(part.partition("dur=")[2]) for part in header.split(", "))
        <= float(response.headers["openai-processing-ms"]) + 1
    )


async def test_a_stream_tells_them_in_its_last_chunk(client: httpx2.AsyncClient) -> None:
    for options in ({}, {"stream_options": {"include_usage": True}}):
        response = await client.post("/v1/completions", json=completion(stream=True, **options))
        lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
        events = [json.loads(line) for line in lines if line != "[DONE]"]
        assert [index for index, event in enumerate(events) if "timings" in event] == [len(events) - 1]
        assert events[-1]["choices"] == []
        assert ("usage" in events[-1]) == bool(options)
        assert "prefill;dur=" in response.headers["server-timing"]


async def test_nothing_is_told_unless_asked(client: httpx2.AsyncClient) -> None:
    response = await client.post("/v1/completions", json=completion(timings=None, max_tokens=2))
    assert "timings" not in response.json()


async def test_refused_requests_are_remembered_without_their_text(client: httpx2.AsyncClient) -> None:
    refusals: list[tuple[dict[str, Any], int, str]] = [
        ({"content": b"{secret"}, 400, "invalid_value"),
        ({"json": {"model": "nobody", "prompt": "secret"}}, 404, "model_not_found"),
        ({"content": b"x" * (9 * 1024 * 1024)}, 413, "payload_too_large"),
    ]
    for given, status, outcome in refusals:
        refused = await client.post("/v1/completions", **given)
        assert refused.status_code == status
        found = await show(client, "last", status=status)
        assert (found["outcome"], found["model"], found["path"]) == (outcome, "", "/v1/completions")
        assert found["error"] == refused.json()["error"]["message"]
        assert "secret" not in json.dumps(found)
    listed = (await client.get("/headrace/requests?limit=3")).json()["data"]
    assert [entry["status"] for entry in listed] == [413, 404, 400]
    metrics = (await client.get("/metrics")).text
    assert 'headrace_http_requests_total{method="POST",route="/v1/completions",status="413"}' in metrics


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "limit=1001", "tenant=b"])
async def test_a_bad_question_is_refused(client: httpx2.AsyncClient, query: str) -> None:
    assert (await client.get(f"/headrace/requests?{query}")).status_code == 400


async def test_the_answer_of_the_cache_is_told(client: httpx2.AsyncClient) -> None:
    body = completion(prompt="An answer that is remembered", max_tokens=4)
    for expected in ("miss", "hit"):
        response = await client.post("/v1/completions", json=body, headers={"x-headrace-cache": "on"})
        assert response.headers["x-headrace-cache"] == response.json()["timings"]["response_cache"] == expected
        assert "cache" in response.json()["timings"]["stages_ms"]
    assert response.json()["timings"]["output_tokens"] == 4
