"""Mixed traffic for as long as wanted, and what it leaves behind."""

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field

from tests.faults.asking import Answer, asker, request_bytes
from tests.faults.platforms import Platform, Shape, read_metrics, up, wait_until_whole, what_is_held
from tests.faults.questions import EVERYTHING, long_prompt, pool, remembered, short_output, stream
from tests.faults.shapes import encoder
from tests.faults.traffic import Traffic
from tests.soak.footprint import Footprint, footprints

SMALL_CACHE = {"block_count": 1200}
"""Blocks take memory when they are first used: few are all in use once the platform is warm."""
ONE_PROCESS = {"pool_size": 1}
"""Text processes of a tokenizer are started when they are first needed, which may be after all is warm."""
SHAPE = Shape(
    "soaked",
    ("headrace-demo", encoder()),
    {"worker": SMALL_CACHE, "tokenizer": ONE_PROCESS},
    worker_count=2,
    has_encoder=True,
)
CLIENTS = 6
START_SECONDS = 60.0
BROKEN_BODIES = [b"{", b"[1]", b'{"model": "none", "prompt": "x"}', b'{"model": "headrace-demo", "prompt": []}']
LEAVE_SECONDS = 0.1


@dataclass
class Soak:
    """Observations of a soak."""

    outcomes: Counter[str] = field(default_factory=Counter)
    before: dict[str, Footprint] = field(default_factory=dict)
    """Each process at rest, warm."""
    samples: dict[str, list[Footprint]] = field(default_factory=dict)
    """Each process under traffic."""
    after: dict[str, Footprint] = field(default_factory=dict)
    """Each process at rest again."""
    held: dict[str, float] = field(default_factory=dict)
    """Metrics that did not go back to zero."""
    seconds: float = 0.0


async def soak(seconds: float, warm_seconds: float, sample_seconds: float, seed: int = 1) -> Soak:
    """Runs a platform, warms it up, and soaks it for `seconds`."""
    seen = Soak()
    async with up(SHAPE) as platform:
        assert await wait_until_whole(platform, SHAPE.worker_count, START_SECONDS)
        tasks = (await read_metrics(platform.http))["event_loop_tasks"]
        await _soak_for(platform, warm_seconds, random.Random(seed), seen=None)
        await what_is_held(platform.http, tasks)
        seen.before = footprints(platform)
        start = time.monotonic()
        chance = random.Random(seed + 1)
        while time.monotonic() - start < seconds:
            await _soak_for(platform, min(sample_seconds, seconds), chance, seen)
        seen.seconds = time.monotonic() - start
        seen.held = await what_is_held(platform.http, tasks)
        seen.after = footprints(platform)
    return seen


async def _soak_for(platform: Platform, seconds: float, chance: random.Random, seen: Soak | None) -> None:
    """Traffic of all kinds, with a sample at its end."""
    makers = [*EVERYTHING, long_prompt, short_output, remembered]
    questions = pool(makers, chance.randrange(1 << 30), 10 * len(makers))
    traffic = Traffic(asker(platform.http), questions, CLIENTS, chance)
    over = asyncio.Event()
    rude = asyncio.create_task(_be_rude(platform, chance, over))
    traffic.start()
    try:
        await asyncio.sleep(seconds)
        if seen is not None:
            for name, footprint in footprints(platform).items():
                seen.samples.setdefault(name, []).append(footprint)
    finally:
        # Not cancelled: a connection that was just being opened would stay open.
        over.set()
        answers: list[Answer] = await traffic.stop()
        await asyncio.gather(rude, return_exceptions=True)
    if seen is not None:
        seen.outcomes.update(answer.outcome for answer in answers)


async def _be_rude(platform: Platform, chance: random.Random, over: asyncio.Event) -> None:
    """Goes away in the middle, and sends what is no request."""
    host, _, port = platform.http.removeprefix("http://").rpartition(":")
    while not over.is_set():
        _reader, writer = await asyncio.open_connection(host, int(port))
        try:
            if chance.random() < 0.5:
                writer.write(request_bytes(f"{host}:{port}", stream(chance)))
            else:
                body = chance.choice(BROKEN_BODIES)
                head = f"POST /v1/completions HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(body)}\r\n\r\n"
                writer.write(head.encode() + body)
            await asyncio.sleep(LEAVE_SECONDS)
        finally:
            writer.transport.abort()
