"""Promises of the scheduler, measured over HTTP on a whole platform, with sim engines, whose step times are known.

    make bench-service-levels     or: python -m tests.benchmarks.service_levels [--json]

- realtime: 95th percentile of the time to first token of realtime requests, without and with a flood of batch work,
  in turns.
- fairness: Jain's index (Jain, Chiu and Hawe, 1984) of the tokens that ten tenants got while all of them waited, one
  of which sends fifty times as much as each other.
- overload: 2,000 requests at once for a small queue. Those sent away come back when they were told to, which is
  compared with when there was room; the gateway's memory before, after, and after the same once more.
"""

import argparse
import asyncio
import json
import os
import platform as machine
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
from rich.table import Table
from tests.harness.running_platform import running_platform

from headrace.access.api_key import ApiKey
from headrace.access.key_file import KeyFile
from headrace.cli.output import console, print_json
from headrace.load_generator.percentile import percentile

STEP_SECONDS = 0.010
ROUNDS = 3
TENANTS = 10
KEYS: list[ApiKey] = []
"""Key of each tenant."""
FLOOD = 50
AT_ONCE = 2000
QUEUE = 200
RUNNING = 16
DEADLINE_MS = 120_000
OK = 200
BUSY = (429, 503)
MAX_TRIES = 50


@dataclass
class Outcome:
    """One request, on the monotonic clock in seconds."""

    start: float
    status: int = 0
    first: float | None = None
    end: float = 0.0
    retry_after: float | None = None
    tokens: list[float] = field(default_factory=list)

    @property
    def ttft(self) -> float:
        return (self.first or self.end) - self.start


async def send(url: str, chance: random.Random, prompt: int, output: int, **headers: str) -> Outcome:
    """Sends one streaming completion and reads it to its end."""
    parts = urlsplit(url)
    outcome = Outcome(time.monotonic())
    body = {
        "model": "headrace-demo",
        "prompt": [chance.randrange(3, 256) for _ in range(prompt)],
        "max_tokens": output,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
    }
    content = json.dumps(body).encode()
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    head = "\r\n".join(
        [
            "POST /v1/completions HTTP/1.1",
            f"host: {parts.netloc}",
            "content-type: application/json",
            "connection: close",
            f"content-length: {len(content)}",
            f"x-headrace-timeout-ms: {DEADLINE_MS}",
            *lines,
        ]
    )
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        writer.write(head.encode() + b"\r\n\r\n" + content)
        await _read(reader, outcome)
    finally:
        writer.close()
    outcome.end = time.monotonic()
    return outcome


async def _read(reader: asyncio.StreamReader, outcome: Outcome) -> None:
    outcome.status = int((await reader.readline()).split()[1])
    headers = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    for header in headers.splitlines():
        name, _, value = header.partition(":")
        if name == "retry-after-ms":
            outcome.retry_after = float(value) / 1000
    async for line in reader:
        if line.startswith(b'data: {"id"'):
            now = time.monotonic()
            outcome.first = outcome.first or now
            outcome.tokens.append(now)


async def measure_realtime(url: str) -> dict[str, float]:
    """95th percentiles in milliseconds, and their ratio."""
    idle: list[float] = []
    flooded: list[float] = []
    for number in range(ROUNDS):
        chance = random.Random(number)
        idle += [outcome.ttft for outcome in await _voices(url, chance)]
        flood = [
            asyncio.create_task(send(url, chance, chance.randint(16, 256), 128, x_headrace_class="batch"))
            for _ in range(300)
        ]
        await asyncio.sleep(2)
        flooded += [outcome.ttft for outcome in await _voices(url, chance)]
        if all(task.done() for task in flood):
            raise SystemExit("the flood was over too soon: nothing was measured")
        await asyncio.gather(*flood)
    p95_idle, p95_flooded = percentile(idle, 95) or 0.0, percentile(flooded, 95) or 0.0
    return {
        "idle_p95_ms": round(p95_idle * 1000, 1),
        "flooded_p95_ms": round(p95_flooded * 1000, 1),
        "ratio": round(p95_flooded / p95_idle, 2),
    }


async def _voices(url: str, chance: random.Random) -> Sequence[Outcome]:
    tasks = []
    for _ in range(40):
        tasks.append(asyncio.create_task(send(url, chance, 64, 8, x_headrace_class="realtime")))
        await asyncio.sleep(0.1)
    return await asyncio.gather(*tasks)


async def measure_fairness(url: str) -> dict[str, float]:
    """Jain's index of the output tokens in the time in which every tenant had requests waiting."""
    chance = random.Random(1)
    sent: dict[int, list[asyncio.Task[Outcome]]] = {}
    for tenant in range(TENANTS):
        count = 20 * (FLOOD if tenant == 0 else 1)
        sent[tenant] = [
            asyncio.create_task(send(url, chance, 32, 64, authorization=f"Bearer {KEYS[tenant].text}"))
            for _ in range(count)
        ]
    outcomes = {tenant: await asyncio.gather(*tasks) for tenant, tasks in sent.items()}
    begin = max(min(outcome.first or outcome.end for outcome in mine) for mine in outcomes.values())
    end = min(max(outcome.end for outcome in mine) for mine in outcomes.values())
    shares = [
        sum(begin <= moment <= end for outcome in mine for moment in outcome.tokens) for mine in outcomes.values()
    ]
    index = sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))
    return {"jain": round(index, 3), "seconds": round(end - begin, 1), "tokens": sum(shares)}


async def measure_overload(url: str, gateway_pid: int) -> dict[str, float]:
    """Counts, the error of Retry-After, and the gateway's memory in MiB. Clients that are rejected return after it."""
    process = psutil.Process(gateway_pid)
    chance = random.Random(2)
    await asyncio.gather(*(send(url, chance, 32, 32) for _ in range(50)))
    before = process.memory_info().rss
    start = time.monotonic()
    clients = await asyncio.gather(*(_insist(url, chance) for _ in range(AT_ONCE)))
    after = process.memory_info().rss
    await asyncio.gather(*(_insist(url, chance) for _ in range(AT_ONCE)))
    refusals = [outcome for answers in clients for outcome in answers if outcome.status != OK]
    first_refusals = [answers[0] for answers in clients if answers[0].status != OK]
    began = sorted(answers[-1].first or answers[-1].end for answers in clients)
    told = sorted(outcome.end + (outcome.retry_after or 0.0) for outcome in first_refusals)
    # Each request that begins makes room in the queue for the next of those who were sent away.
    freed = began[RUNNING:]
    errors = [abs(one - real) / (real - start) * 100 for one, real in zip(told, freed, strict=False)]
    return {
        "answered_at_once": sum(answers[0].status in (OK, *BUSY) for answers in clients),
        "sent_away_at_first": len(first_refusals),
        "refusals_in_all": len(refusals),
        "refusals_without_retry_after": sum(outcome.retry_after is None for outcome in refusals),
        "served_in_the_end": sum(answers[-1].status == OK for answers in clients),
        "seconds": round(max(began) - start, 1),
        "retry_after_median_error_percent": round(statistics.median(errors), 1),
        "rss_before_mib": round(before / 2**20, 1),
        "rss_after_mib": round(after / 2**20, 1),
        "rss_after_again_mib": round(process.memory_info().rss / 2**20, 1),
    }


async def _insist(url: str, chance: random.Random) -> list[Outcome]:
    """Sends a request until it is served, waiting for Retry-After between tries."""
    answers = [await send(url, chance, 32, 32)]
    while answers[-1].status in BUSY and len(answers) < MAX_TRIES:
        await asyncio.sleep(answers[-1].retry_after or 1.0)
        answers.append(await send(url, chance, 32, 32))
    return answers


def measure() -> dict[str, dict[str, float]]:
    """Runs a platform for each promise."""
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        with _platform(Path(name) / "realtime", "") as running:
            found["realtime"] = asyncio.run(measure_realtime(running.http))
        with _platform(Path(name) / "fairness", "", tenants=True) as running:
            found["fairness"] = asyncio.run(measure_fairness(running.http))
        small = f"[scheduler]\nmax_waiting_count = {QUEUE}\n"
        with _platform(Path(name) / "overload", small) as running:
            found["overload"] = asyncio.run(measure_overload(running.http, running.service("gateway")["pid"]))
    return found


def _platform(folder: Path, more: str, tenants: bool = False) -> Any:
    folder.mkdir(parents=True)
    gateway = "[gateway]\nmax_open_requests = 4000\n"
    if tenants:
        keys = KeyFile(folder / "keys.json")
        KEYS[:] = [keys.create(f"tenant-{number}")[0] for number in range(TENANTS)]
        gateway += f'keys_file = "{keys.path}"\n'
    worker = f"[worker]\nsim_base_seconds = {STEP_SECONDS}\nmax_running_count = {RUNNING}\n"
    config = folder / "platform.toml"
    config.write_text(gateway + worker + more)
    return running_platform(folder / "state", ["--engine", "sim", "--config", str(config)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure()
    about = f"{machine.machine()}, {os.cpu_count()} cores, Python {machine.python_version()}"
    if not options.json:
        table = Table(box=None, header_style="dim", pad_edge=False)
        for title in ("promise", "figure", "value"):
            table.add_column(title)
        for promise, figures in found.items():
            for figure, value in figures.items():
                table.add_row(promise, figure, str(value))
        console.print(table)
    print_json({"date": datetime.now(tz=UTC).date().isoformat(), "machine": about} | found)


if __name__ == "__main__":
    main()
