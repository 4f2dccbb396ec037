"""Streams of minutes outlive an upgrade of everything, each restart within its grace; clients resume those of a
gateway."""

import asyncio
import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.faults.platforms import POLL_SECONDS, arm, read_metrics
from tests.hosts.fleet_plan import FleetOptions, host_of, kind_of
from tests.hosts.host_platform import GATEWAYS, WORKERS, HostPlatform, on_hosts
from tests.hosts.network.host_network import CLIENTS
from tests.hosts.release import Release, former_release
from tests.hosts.stream_process import StreamProcess

TOKENS = 1200
GRACE_SECONDS = 30.0
QUIET_SECONDS, WHOLE_SECONDS, END_SECONDS = 180.0, 120.0, 900.0
KINDS = ("worker", "scheduler", "tokenizer", "cache", "nats", "gateway")
RESUME_SECONDS = 60.0
FORMER = os.environ.get("HEADRACE_HOSTS_OLD", "d2926d27f664479aef20e02da5e4e291defb4605")
"""Commit that a platform under long streams is upgraded from: of 2026-11-28, the first that moves requests and resumes
streams in every service."""


@dataclass(frozen=True)
class Restarts:
    """Streams, and what is restarted meanwhile."""

    count: int
    step_seconds: float
    drain_seconds: float
    rounds: int = 1
    kinds: tuple[str, ...] = KINDS
    number: signal.Signals = signal.SIGTERM
    begins_with: str = ""
    """Commit of the release that the platform begins with, and is upgraded from. Empty: this one."""


LONG = Restarts(count=64, step_seconds=0.5, drain_seconds=25.0, begins_with=FORMER)
"""Streams of ten minutes under an upgrade, one process after the other."""
OFTEN = Restarts(count=6, step_seconds=0.1, drain_seconds=1.0, rounds=5, kinds=("worker",), number=signal.SIGKILL)
"""Streams of two minutes that lose their worker more than five times."""


@pytest.mark.timeout(1800)
def test_streams_of_ten_minutes_outlive_an_upgrade_of_everything(tmp_path: Path, root: Path) -> None:
    found = play(LONG, tmp_path, root)
    assert found["faults"] == []
    assert found["counts"] == {"same": LONG.count}
    assert found["seconds"] > TOKENS * LONG.step_seconds
    assert max(found["stops"].values()) < GRACE_SECONDS


@pytest.mark.timeout(900)
def test_a_stream_outlives_any_number_of_workers(tmp_path: Path, root: Path) -> None:
    found = play(OFTEN, tmp_path, root)
    assert found["faults"] == []
    assert found["counts"] == {"same": OFTEN.count}


def play(restarts: Restarts, folder: Path, root: Path) -> dict[str, Any]:
    found = asyncio.run(restart_under_streams(restarts, folder / "streams"))
    (root / "build/hosts").mkdir(parents=True, exist_ok=True)
    with (root / "build/hosts/long.jsonl").open("a") as rows:
        rows.write(json.dumps(found) + "\n")
    return found


async def restart_under_streams(restarts: Restarts, folder: Path) -> dict[str, Any]:
    """Restarts one process after the other while the streams run. Returns what came of them."""
    # The usual deadline of a request is ten minutes.
    variables = (("HEADRACE_GATEWAY_DEFAULT_TIMEOUT_SECONDS", "1800"),)
    release = former_release(restarts.begins_with) if restarts.begins_with else Release()
    options = FleetOptions(drain_seconds=restarts.drain_seconds, variables=variables, release=release)
    async with on_hosts(options) as platform:
        addresses = [platform.network.address(host_of(name)) for name in GATEWAYS]
        streams = StreamProcess(folder, platform.network[CLIENTS], addresses, restarts.count, TOKENS, RESUME_SECONDS)
        try:
            await streams.begun(QUIET_SECONDS)
            for worker in WORKERS:
                arm(platform, worker, "engine.step", f"sleep {restarts.step_seconds}")
            began = time.monotonic()
            await _open(platform, restarts.count)
            streams.stop()
            stops = await _restart_each(platform, restarts)
            rolled = time.monotonic() - began
            found = await streams.end(END_SECONDS)
            return found | {"stops": stops, "rolled": rolled, "seconds": time.monotonic() - began}
        finally:
            streams.close()


async def _open(platform: HostPlatform, count: int) -> None:
    """Waits until all streams are running. Raises TimeoutError."""
    urls = platform.balancer.urls.values()
    async with asyncio.timeout(QUIET_SECONDS):
        while sum([(await read_metrics(url))["requests_open"] for url in urls]) < count:  # noqa: ASYNC110
            await asyncio.sleep(POLL_SECONDS)


async def _restart_each(platform: HostPlatform, restarts: Restarts) -> dict[str, float]:
    """Returns the longest time that each process took to stop."""
    names = [name for kind in restarts.kinds for name in platform.names() if kind_of(name) == kind]
    stops: dict[str, float] = {}
    for name in names * restarts.rounds:
        asked = time.monotonic()
        platform.hold([name])
        platform.install(name, Release())
        platform.send(name, restarts.number)
        await platform.ended([name], GRACE_SECONDS)
        stops[name] = max(stops.get(name, 0.0), time.monotonic() - asked)
        platform.release([name])
        assert await platform.wait_until_whole(WHOLE_SECONDS), f"not whole after {name} was restarted"
    return stops
