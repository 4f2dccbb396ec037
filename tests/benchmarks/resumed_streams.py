"""Measures resumed streams: after how long the next token comes when a gateway is killed, and what journals cost.

python -m tests.benchmarks.resumed_streams [ROUNDS]
"""

import asyncio
import json
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import psutil
from tests.e2e.test_resumed_streams import COUNTS, check
from tests.harness.running_platform import RunningPlatform, running_platform

STREAMS, TOKENS, PAIRS = 32, 200, 15
LONG = 1200
"""Tokens of a stream whose gateway is killed."""


def kills(folder: Path, round_count: int) -> None:
    """Kills the gateway of a stream of the bundled model, again and again."""
    with running_platform(folder, counts=COUNTS) as platform:
        found = [check(platform, seed, LONG) for seed in range(round_count)]
    seconds = sorted(each.resumed_seconds for each in found)
    print(f"{len(found)} of {round_count} streams: every token once, the text as undisturbed")
    print(f"next token after {statistics.median(seconds):.3f} s (median), {seconds[-1]:.3f} s (longest)")
    print(f"events before the kill was noticed: {min(each.came_before for each in found)} or more")


async def _stream(address: str) -> None:
    host, _, port = address.partition(":")
    body = {"model": "headrace-demo", "prompt": [5, 6, 7], "max_tokens": TOKENS, "ignore_eos": True, "stream": True}
    content = json.dumps(body).encode()
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(content)}\r\n"
    writer.write(f"{head}connection: close\r\n\r\n".encode() + content)
    received = await reader.read(-1)
    assert received.rstrip(b"\r\n0").endswith(b"data: [DONE]"), received[-200:]
    writer.close()


def cost(platform: RunningPlatform) -> float:
    """Processor seconds of the gateway per token, with streams that run at once."""

    async def run() -> None:
        await asyncio.gather(*(_stream(urlsplit(platform.http).netloc) for _ in range(STREAMS)))

    def used() -> float:
        times = gateway.cpu_times()
        return float(times.user + times.system)

    gateway = psutil.Process(platform.service("gateway")["pid"])
    before = used()
    asyncio.run(run())
    return (used() - before) / (STREAMS * TOKENS)


def overhead(folder: Path) -> None:
    """Compares platforms with and without journals, in turn. Processor time says more than the clock where other
    work shares the machine."""
    with ExitStack() as stack:
        platforms = []
        for name, seconds in (("without", 0), ("with", 60)):
            config = folder / f"{name}.toml"
            config.write_text(f"[gateway]\nresume_seconds = {seconds}\n[worker]\nsim_base_seconds = 0.01\n")
            arguments = ["--engine", "sim", "--config", str(config)]
            platforms.append(stack.enter_context(running_platform(folder / name, arguments)))
        for platform in platforms:
            cost(platform)
        pairs = []
        for number in range(PAIRS):
            order = platforms if number % 2 else platforms[::-1]
            costs = {platform.http: cost(platform) for platform in order}
            pairs.append([costs[platform.http] for platform in platforms])
        without, having = (statistics.median(costs) * 1e6 for costs in zip(*pairs, strict=True))
        print(
            f"{STREAMS} streams of 100 tokens/s: {without:.0f} µs of the gateway per token without journals, ", end=""
        )
        print(f"{having:.0f} with (medians of {PAIRS})", flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        kills(Path(folder) / "kills", int(sys.argv[1]) if len(sys.argv) > 1 else 20)
        overhead(Path(folder))


if __name__ == "__main__":
    main()
