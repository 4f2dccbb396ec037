"""Two gateways of one platform: limits hold for both together, and what clients were told is what is recorded."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import httpx2
import pytest
from tests.integration.in_process_platform import InProcessPlatform, Shape, in_process_platform

from headrace import demo_model
from headrace.access.key_file import KeyFile
from headrace.access.usage_record import UsageRecord
from headrace.access.usage_report import read_usage
from headrace.v1 import inference_pb2, inference_pb2_grpc

pytestmark = pytest.mark.anyio
MODEL = "headrace-demo"
PROMPT = [5, 6, 7, 8]
PATIENCE = 30.0
TALK = [{"role": "user", "content": "Who?"}]
UNLIMITED: dict[str, dict[str, Any]] = {
    "/tokenize": {"model": MODEL, "prompt": "Who?"},
    "/detokenize": {"model": MODEL, "tokens": PROMPT},
    "/v1/messages/count_tokens": {"model": MODEL, "messages": TALK},
    "/v1/responses/input_tokens": {"model": MODEL, "input": "Who?"},
    "/v1/moderations": {"input": "Who?"},
}
"""Paths on which no model computes, with a body for each."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("limits")


@pytest.fixture(scope="module")
def keys(folder: Path) -> KeyFile:
    made = KeyFile(folder / "keys.json")
    made.create("first")
    return made


@pytest.fixture(scope="module")
async def platform(folder: Path, keys: KeyFile) -> AsyncIterator[InProcessPlatform]:
    worker = {"model": MODEL, "engine": "sim", "sim_base_seconds": 0.001}
    gateway = {"keys_file": keys.path, "usage_folder": folder / "usage"}
    shape = Shape({MODEL: demo_model.CHECKPOINT}, [worker], {"gateway": gateway}, gateway_count=2)
    async with in_process_platform(shape, folder / "platform") as made:
        yield made


async def make_key(platform: InProcessPlatform, keys: KeyFile, **limits: int) -> tuple[dict[str, str], str]:
    """Returns the headers of a new key, once both gateways know it, and its id."""
    key, _ = keys.create("client", limits=limits)
    headers = {"authorization": f"Bearer {key.text}"}
    async with asyncio.timeout(5), httpx2.AsyncClient() as client:
        for url in platform.https:
            while (await client.get(f"{url}/v1/models", headers=headers)).status_code != httpx2.codes.OK:  # noqa: ASYNC110 - it can only be asked
                await asyncio.sleep(0.02)
    return headers, key.key_id


def body(count: int = 4, **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "prompt": PROMPT, "max_tokens": count, "ignore_eos": True} | fields


async def ask(url: str, headers: dict[str, str], **fields: Any) -> httpx2.Response:
    async with httpx2.AsyncClient(timeout=PATIENCE) as client:
        return await client.post(f"{url}/v1/completions", json=body(**fields), headers=headers)


def recorded(folder: Path, key_id: str) -> list[UsageRecord]:
    return [record for record in read_usage(folder / "usage") if record.key == key_id]


async def test_200_clients_of_two_gateways_get_exactly_what_the_key_has(
    platform: InProcessPlatform, keys: KeyFile, folder: Path
) -> None:
    headers, key_id = await make_key(platform, keys, requests_per_day=77)
    asked = [ask(platform.https[number % 2], headers) for number in range(200)]
    answers = await asyncio.gather(*asked)
    good = [answer for answer in answers if answer.status_code == 200]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert (len(good), len(refused)) == (77, 123)
    for answer in refused:
        assert answer.json()["error"]["code"] == "rate_limit_exceeded"
        assert answer.headers["x-should-retry"] == "true"
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.headers["x-ratelimit-limit-requests"] == "77"
        assert answer.headers["x-ratelimit-remaining-requests"] == "0"
    records = recorded(folder, key_id)
    assert {record.request_id for record in records} == {answer.json()["id"][len("cmpl-") :] for answer in good}
    assert len(records) == 77


async def test_what_no_model_computes_is_outside_of_limits_and_records(
    platform: InProcessPlatform, keys: KeyFile, folder: Path, root: Path
) -> None:
    headers, key_id = await make_key(platform, keys, requests_per_minute=1)
    statuses = [(await ask(platform.https[0], headers)).status_code for _ in range(2)]
    assert statuses == [200, 429]
    async with httpx2.AsyncClient(timeout=PATIENCE, base_url=platform.https[0], headers=headers) as client:
        for path, content in UNLIMITED.items():
            answers = [await client.post(path, json=content) for _ in range(10)]
            assert {answer.status_code for answer in answers} == {200}, (path, answers[-1].text)
    assert len(recorded(folder, key_id)) == 1
    flags = (root / "docs" / "guide" / "keys.md").read_text().splitlines()
    (limits,) = [line for line in flags if line.startswith("| `--requests-per-minute`")]
    assert [path for path in UNLIMITED if path not in limits and f"`{path.rpartition('/')[2]}`" not in limits] == []


async def test_tokens_that_were_reserved_and_not_generated_go_back(platform: InProcessPlatform, keys: KeyFile) -> None:
    headers, _ = await make_key(platform, keys, tokens_per_day=100)
    for number, expected in enumerate([92, 84, 76]):
        told = await ask(platform.https[number % 2], headers)
        assert told.status_code == 200, told.text
        assert int(told.headers["x-ratelimit-remaining-tokens"]) == expected
    # Two of the most tokens were reserved, and only one was generated: the text ends at its first character.
    stopped = await ask(platform.https[0], headers, count=40, stop=list("abcdefghijklmnop"), n=1)
    assert stopped.status_code == 200, stopped.text
    used = stopped.json()["usage"]["total_tokens"]
    left = await ask(platform.https[1], headers)
    assert int(left.headers["x-ratelimit-remaining-tokens"]) == 76 - used - 8
    assert left.headers["x-ratelimit-reset-tokens"].endswith("s")


async def test_choices_are_reserved_each_and_the_prompt_once(platform: InProcessPlatform, keys: KeyFile) -> None:
    headers, _ = await make_key(platform, keys, tokens_per_day=100)
    told = await ask(platform.https[0], headers, n=3)
    assert int(told.headers["x-ratelimit-remaining-tokens"]) == 100 - 4 - 3 * 4
    never = await ask(platform.https[0], headers, count=200)
    assert never.status_code == 429
    assert never.headers["x-should-retry"] == "false"
    assert "set max_tokens" in never.json()["error"]["message"]


async def test_a_client_that_leaves_gives_its_place_and_tokens_back(
    platform: InProcessPlatform, keys: KeyFile, folder: Path
) -> None:
    headers, key_id = await make_key(platform, keys, tokens_per_day=1000, concurrency=1)
    async with httpx2.AsyncClient(timeout=PATIENCE) as client:
        url = f"{platform.https[0]}/v1/completions"
        async with client.stream("POST", url, json=body(900, stream=True), headers=headers) as stream:
            await anext(stream.aiter_lines())
            busy = await ask(platform.https[1], headers)
            assert busy.status_code == 429
            assert "run already" in busy.json()["error"]["message"]
    async with asyncio.timeout(PATIENCE):
        while (again := await ask(platform.https[1], headers)).status_code != 200:  # noqa: ASYNC110 - it can only be asked
            await asyncio.sleep(0.02)
    (left,) = [record for record in recorded(folder, key_id) if record.outcome != "finished"]
    assert left.outcome == "request_cancelled"
    assert 0 < left.output_tokens < 900
    assert int(again.headers["x-ratelimit-remaining-tokens"]) == 1000 - 4 - left.output_tokens - 8


@pytest.mark.parametrize("stream", [False, True])
async def test_the_ledger_says_what_the_client_was_told(
    platform: InProcessPlatform, keys: KeyFile, folder: Path, stream: bool
) -> None:
    headers, key_id = await make_key(platform, keys)
    fields = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    answer = await ask(platform.https[0], headers, n=2, **fields)
    if stream:
        lines = [line for line in answer.text.splitlines() if line.startswith("data: {")]
        content = json.loads(lines[-1].removeprefix("data: "))
    else:
        content = answer.json()
    (record,) = recorded(folder, key_id)
    usage = content["usage"]
    assert record.request_id == content["id"].removeprefix("cmpl-")
    assert (record.prompt_tokens, record.output_tokens) == (usage["prompt_tokens"], usage["completion_tokens"])
    assert record.cached_tokens == usage["prompt_tokens_details"]["cached_tokens"]
    assert (record.outcome, record.tenant, record.model) == ("finished", "client", MODEL)


async def test_grpc_has_the_same_limits_and_records(platform: InProcessPlatform, keys: KeyFile, folder: Path) -> None:
    headers, key_id = await make_key(platform, keys, requests_per_day=1)
    async with grpc.aio.insecure_channel(platform.grpc) as channel:
        stub = inference_pb2_grpc.InferenceServiceStub(channel)
        request = inference_pb2.GenerateRequest(model=MODEL, text="Who?")
        metadata = tuple(headers.items())
        answer = await stub.Generate(request, timeout=PATIENCE, metadata=metadata)
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await stub.Generate(request, timeout=PATIENCE, metadata=metadata)
    assert refusal.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    (record,) = recorded(folder, key_id)
    assert record.output_tokens == answer.result.usage.output_token_count
