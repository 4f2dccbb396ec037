"""Measures resumed streams: after how long the next token comes when a gateway is killed, and what journals cost.

python -m tests.benchmarks.resumed_streams [ROUNDS]
"""

import asyncio
import json
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

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


def rate(platform: RunningPlatform) -> float:
    """Tokens per second of streams that run at once."""

    async def run() -> None:
        await asyncio.gather(*(_stream(urlsplit(platform.http).netloc) for _ in range(STREAMS)))

    begun = time.perf_counter()
    asyncio.run(run())
    return STREAMS * TOKENS / (time.perf_counter() - begun)


def overhead(folder: Path) -> None:
    """Compares platforms with and without journals, in turn."""
    with ExitStack() as stack:
        platforms = []
        for name, seconds in (("without", 0), ("with", 60)):
            config = folder / f"{name}.toml"
            config.write_text(f"[gateway]\nresume_seconds = {seconds}\n")
            arguments = ["--engine", "sim", "--config", str(config)]
            platforms.append(stack.enter_context(running_platform(folder / name, arguments)))
        for platform in platforms:
            rate(platform)
        pairs = []
        for number in range(PAIRS):
            order = platforms if number % 2 else platforms[::-1]
            rates = {platform.http: rate(platform) for platform in order}
            pairs.append([rates[platform.http] for platform in platforms])
    without, having = (statistics.median(rates) for rates in zip(*pairs, strict=True))
    ratio = statistics.median(having / without for without, having in pairs)
    print(f"{STREAMS} streams: {without:.0f} tokens/s without journals, {having:.0f} with (medians of {PAIRS})")
    print(f"with / without, interleaved: {ratio:.3f} (median)")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        kills(Path(folder) / "kills", int(sys.argv[1]) if len(sys.argv) > 1 else 20)
        overhead(Path(folder))


if __name__ == "__main__":
    main()
