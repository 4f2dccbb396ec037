"""Streams of ten minutes go through restarts of everything that is no gateway, each within its grace."""

import asyncio
import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.faults.platforms import arm
from tests.hosts.fleet_plan import FleetOptions, host_of, kind_of
from tests.hosts.host_platform import GATEWAYS, WORKERS, HostPlatform, on_hosts
from tests.hosts.network.host_network import CLIENTS
from tests.hosts.stream_process import StreamProcess

COUNT, TOKENS, STEP_SECONDS = 64, 1200, 0.5
GRACE_SECONDS, DRAIN_SECONDS = 30.0, 25.0
QUIET_SECONDS, WHOLE_SECONDS, END_SECONDS = 180.0, 60.0, 400.0
LAST_SECONDS = 60.0
"""Time before the streams end from which on nothing is restarted any more."""
KINDS = ("worker", "scheduler", "tokenizer", "cache", "nats")


@pytest.mark.timeout(1800)
def test_streams_of_ten_minutes_outlive_all_but_their_gateways(tmp_path: Path, root: Path) -> None:
    found = asyncio.run(roll_under_streams(tmp_path / "streams"))
    with (root / "build/hosts/long.jsonl").open("a") as rows:
        rows.write(json.dumps(found) + "\n")
    assert found["faults"] == []
    assert found["counts"] == {"same": COUNT}
    assert found["seconds"] > TOKENS * STEP_SECONDS
    assert max(found["stops"].values()) < GRACE_SECONDS


async def roll_under_streams(folder: Path) -> dict[str, Any]:
    """Restarts one process after the other while the streams run. Returns what came of them."""
    # The usual deadline of a request is ten minutes.
    variables = (("HEADRACE_GATEWAY_DEFAULT_TIMEOUT_SECONDS", "1800"),)
    async with on_hosts(FleetOptions(drain_seconds=DRAIN_SECONDS, variables=variables)) as platform:
        addresses = [platform.network.address(host) for host in map(host_of, GATEWAYS)]
        streams = StreamProcess(folder, platform.network[CLIENTS], addresses, COUNT, TOKENS)
        try:
            await streams.begun(QUIET_SECONDS)
            for worker in WORKERS:
                arm(platform, worker, "engine.step", f"sleep {STEP_SECONDS}")
            began = time.monotonic()
            stops = await _roll(platform, began + TOKENS * STEP_SECONDS - LAST_SECONDS)
            found = await streams.end(END_SECONDS)
            return found | {"stops": stops, "seconds": time.monotonic() - began}
        finally:
            streams.close()


async def _roll(platform: HostPlatform, until: float) -> dict[str, float]:
    """Restarts what is no gateway, round after round. Returns the longest time that each took to stop."""
    names = sorted((name for name in platform.names() if name not in GATEWAYS), key=lambda n: KINDS.index(kind_of(n)))
    stops: dict[str, float] = {}
    while True:
        for name in names:
            if time.monotonic() > until:
                return stops
            asked = time.monotonic()
            platform.hold([name])
            platform.send(name, signal.SIGTERM)
            await platform.ended([name], GRACE_SECONDS)
            stops[name] = max(stops.get(name, 0.0), time.monotonic() - asked)
            platform.release([name])
            assert await platform.wait_until_whole(WHOLE_SECONDS), f"not whole after {name} was restarted"
