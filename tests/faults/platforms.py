"""Platforms that faults act on, seen from outside: addresses, processes, signals, metrics."""

import asyncio
import contextlib
import json
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import httpx2
import psutil
from tests.faults.questions import MODEL
from tests.harness.forked_up import prepare_forks
from tests.harness.running_platform import RunningPlatform, running_platform

HELD = ("requests_open", "requests_running", "requests_waiting", "kv_blocks_used", "worker_sessions")
LEAK_SECONDS = 60.0
POLL_SECONDS = 0.1
SPARE_TASKS = 10
"""Tasks beyond the usual that are no leak: streams to workers that came back, a connection that is just ending."""


@dataclass(frozen=True)
class Shape:
    """Shape of the platform that a fault wants. Faults of equal shapes share one."""

    name: str
    arguments: tuple[str, ...] = ()
    """Arguments of `headrace up`."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)
    """Tables of the configuration file."""
    linked: bool = False
    """Connects every pair of services through a proxy."""
    worker_count: int = 2
    has_encoder: bool = False
    save_model: Callable[[Path], Path] | None = None
    """Writes a checkpoint into a folder, which is served under the bundled model's name."""


class Platform(Protocol):
    """A running platform, as far as faults need to know it."""

    http: str
    folder: Path
    is_linked: bool
    """True if there are links to cut."""

    def names(self) -> list[str]:
        """Names of all processes: nats, gateway, worker-0, …"""

    def pid(self, name: str) -> int:
        """Raises ProcessLookupError while it is being started again."""

    def first(self, kind: str) -> str:
        """The first process of a kind: there may be several schedulers."""

    def log(self, name: str) -> str: ...


def signal_to(platform: Platform, name: str, number: int) -> None:
    """Sends a signal. A process that is just being started again gets none."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(platform.pid(name), number)


def first_of(kind: str, names: Sequence[str]) -> str:
    """The name itself if there is one, else the first that only adds a number. Raises LookupError."""
    found = kind if kind in names else next((name for name in names if name.startswith(f"{kind}-")), None)
    if found is None:
        raise LookupError(f"there is no {kind} among {', '.join(names)}")
    return found


def arm(platform: Platform, name: str, point: str, action: str) -> Path:
    """Switches a failpoint of one process on; returns the file that does it."""
    folder = platform.folder / "failpoints" / name
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / f"{point}.new"
    # Whole or not at all: the process may look at any time.
    fresh.write_text(action)
    return fresh.rename(folder / point)


def disarm(platform: Platform) -> None:
    """Switches every failpoint off."""
    for path in (platform.folder / "failpoints").glob("*/*"):
        path.unlink(missing_ok=True)


async def read_metrics(http: str) -> dict[str, float]:
    """The sum over all labels of every metric of the gateway at a URL."""
    async with httpx2.AsyncClient(timeout=5) as client:
        text = (await client.get(f"{http}/metrics")).text
    totals: dict[str, float] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            name = name.partition("{")[0].removeprefix("headrace_")
            totals[name] = totals.get(name, 0.0) + float(value)
    return totals


async def what_is_held(http: str, tasks: float, seconds: float = LEAK_SECONDS) -> dict[str, float]:
    """Waits at most `seconds` until nothing is held any more; returns the metrics that are still not zero.

    `tasks` is how many the gateway had before the first request.
    """
    held: dict[str, float] = {"metrics unreadable": 1}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while held:
                with contextlib.suppress(httpx2.HTTPError, OSError):
                    metrics = await read_metrics(http)
                    held = {name: metrics[name] for name in HELD if metrics.get(name)}
                    more = metrics["event_loop_tasks"] - tasks
                    held |= {"tasks": more} if more > SPARE_TASKS else {}
                await asyncio.sleep(POLL_SECONDS)
    return held


async def wait_until_whole(platform: Platform, worker_count: int, seconds: float = 30.0) -> bool:
    """Waits until every service and worker is ready. Returns False after `seconds`."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds), httpx2.AsyncClient(timeout=2) as client:
            while True:
                with contextlib.suppress(httpx2.HTTPError, OSError):
                    response = await client.get(f"{platform.http}/ready")
                    body = response.json()
                    services = set(body["services"].values()) == {"ready"}
                    ready = response.status_code == 200 and services and body["workers_ready"] >= worker_count
                    if ready and _all_run(platform):
                        return True
                await asyncio.sleep(POLL_SECONDS)
    return False


def _all_run(platform: Platform) -> bool:
    """Whether the supervisor sees no process that is being restarted."""
    try:
        return all(platform.pid(name) for name in platform.names())
    except ProcessLookupError:
        return False


class UpPlatform:
    """A platform run by `headrace up`, whose supervisor starts processes again."""

    is_linked = False

    def __init__(self, running: RunningPlatform) -> None:
        self.running = running
        self.http, self.folder = running.http, running.state_dir

    def names(self) -> list[str]:
        return [service["name"] for service in self.running.describe()["services"]]

    def pid(self, name: str) -> int:
        service = self.running.service(name)
        if service["pid"] is None or service["state"] == "restarting":
            raise ProcessLookupError(name)
        return int(service["pid"])

    def first(self, kind: str) -> str:
        return first_of(kind, self.names())

    def supervisor(self) -> int:
        return self.running.process.pid

    def log(self, name: str) -> str:
        return self.running.log(name)


@contextlib.asynccontextmanager
async def up(shape: Shape) -> AsyncIterator[UpPlatform]:
    """Runs `headrace up`. Raises AssertionError when it does not start, or leaves something behind."""
    prepare_forks()
    with tempfile.TemporaryDirectory(prefix="headrace-faults-") as name:
        folder = Path(name)
        config = write_config(shape, folder)
        models = [f"{MODEL}={shape.save_model(folder / 'model')}"] if shape.save_model else []
        running = running_platform(folder, [*models, *shape.arguments, "--config", str(config)], counts=())
        platform = UpPlatform(await asyncio.to_thread(running.__enter__))
        try:
            yield platform
        finally:
            disarm(platform)
            for process in psutil.Process(platform.supervisor()).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    process.send_signal(signal.SIGCONT)
            await asyncio.to_thread(running.__exit__, None, None, None)


def write_config(shape: Shape, folder: Path) -> Path:
    """The configuration file of a platform: what the shape asks for, and failpoints for every service."""
    lines = []
    for name in ("gateway", "tokenizer", "scheduler", "cache", "worker"):
        table = {"failpoints": str(folder / "failpoints"), **shape.settings.get(name, {})}
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items()), ""]
    path = folder / "faults.toml"
    path.write_text("\n".join(lines))
    return path
