"""A gateway that is killed under traffic loses no record of what a client has got whole, and writes none twice."""

import asyncio
import itertools
import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.harness.running_platform import RunningPlatform, running_platform

from headrace.access.usage_record import UsageRecord
from headrace.access.usage_report import read_usage

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
KILLS = int(os.environ.get("HEADRACE_USAGE_KILLS", "4"))
"""Moments at which the gateway dies. `make faults` tries more."""
CLIENTS = 12
TRAFFIC_SECONDS = 0.15
"""Seconds of traffic before each kill: several requests of each client."""
BODY = {"model": "headrace-demo", "prompt": [5, 6, 7], "max_tokens": 24, "ignore_eos": True}


@dataclass
class Told:
    """Answers to clients: usage by the id that each gave its request, and the ids that were broken off."""

    usage: dict[str, dict[str, Any]] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    stopping: bool = False


async def ask(client: httpx2.AsyncClient, name: str, streams: bool) -> dict[str, Any] | None:
    """Returns the usage of an answer that came whole, or None."""
    body = BODY | ({"stream": True, "stream_options": {"include_usage": True}} if streams else {})
    try:
        answer = await client.post("/v1/completions", json=body, headers={"x-request-id": name})
    except httpx2.HTTPError:
        return None
    if answer.status_code != httpx2.codes.OK:
        return None
    if not streams:
        return dict(answer.json()["usage"])
    lines = [line for line in answer.text.splitlines() if line.startswith("data: ")]
    if lines[-1] != "data: [DONE]":
        return None
    return dict(json.loads(lines[-2].removeprefix("data: "))["usage"])


async def drive(url: str, number: int, told: Told) -> None:
    async with httpx2.AsyncClient(base_url=url, timeout=30) as client:
        for count in itertools.count():
            if told.stopping:
                return
            name = f"client{number}-{count}"
            usage = await ask(client, name, streams=count % 2 == 0)
            if usage is None:
                told.broken.add(name)
                await asyncio.sleep(0.02)
            else:
                told.usage[name] = usage


async def kill_under_traffic(platform: RunningPlatform) -> Told:
    told = Told()
    async with asyncio.TaskGroup() as clients:
        for number in range(CLIENTS):
            clients.create_task(drive(platform.http, number, told))
        for kill in range(1, KILLS + 1):
            before = len(told.usage)
            async with asyncio.timeout(30):
                while len(told.usage) < before + CLIENTS:  # noqa: ASYNC110 - it is the clients' doing
                    await asyncio.sleep(0.01)
            await asyncio.sleep(TRAFFIC_SECONDS)
            platform.kill("gateway")
            await asyncio.to_thread(platform.wait_until_restarted, "gateway", kill)
        told.stopping = True
    return told


def numbers(record: UsageRecord) -> tuple[int, int, int]:
    return record.prompt_tokens, record.output_tokens, record.cached_tokens


async def test_what_a_client_got_whole_is_recorded_once(tmp_path: Path) -> None:
    config = tmp_path / "platform.toml"
    config.write_text("[worker]\nsim_base_seconds = 0.002\n")
    with running_platform(tmp_path / "state", ["--engine", "sim", "--config", str(config)]) as platform:
        told = await kill_under_traffic(platform)
        records = list(read_usage(tmp_path / "state" / "usage"))
    finished = {record.request_id.rpartition(".")[0]: record for record in records if record.outcome == "finished"}
    assert max(Counter(record.request_id for record in records).values()) == 1
    assert len(finished) == sum(record.outcome == "finished" for record in records)
    assert told.broken
    missing = [name for name in told.usage if name not in finished]
    assert missing == []
    for name, usage in told.usage.items():
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        assert numbers(finished[name]) == (usage["prompt_tokens"], usage["completion_tokens"], cached)
    assert {record.request_id.rpartition(".")[0] for record in records} - told.usage.keys() <= told.broken
