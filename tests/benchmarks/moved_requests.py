"""Pauses of streams while their worker is drained, with KV blocks that travel and without.

    python -m tests.benchmarks.moved_requests [--rounds 5] [--shape 300m] [--write PATH]

Two platforms of two workers each: on one, a moved request fetches its KV blocks from the worker that it leaves; on the
other it is computed again. Streams with long prompts run, and one of the two workers is drained. Rounds of the two are
interleaved. Told are the longest pauses of the streams after the drain began, and their ratio. Texts must be equal.
"""

import asyncio
import json
import os
import platform as machine
import statistics
import time
from collections import defaultdict
from pathlib import Path

import httpx2
from tests.benchmarks.blocks_that_travel import KINDS, platforms_of_kinds
from tests.benchmarks.grown_page import write_page
from tests.benchmarks.read_stream import MODEL
from tests.benchmarks.story_prompt import story_prompt

STREAM_COUNT, SENTENCE_COUNT, TOKEN_COUNT = 6, 110, 160
BEGUN_TOKENS = 24
"""Tokens of each stream before the drain."""
TIMEOUT = 300.0
MOVES = "headrace_moves_total"


class Pauses:
    """Times between the tokens of one stream."""

    def __init__(self) -> None:
        self.text = ""
        self.count = 0
        self.longest = 0.0
        """Longest pause, in seconds, since the drain."""
        self.begun = asyncio.Event()
        """Event that is set once there are BEGUN_TOKENS."""
        self._last = time.perf_counter()

    def take(self, text: str) -> None:
        """Notes an event of the stream."""
        now = time.perf_counter()
        self.text, self.count = self.text + text, self.count + 1
        self.longest, self._last = max(self.longest, now - self._last), now
        if self.count == BEGUN_TOKENS:
            self.begun.set()

    def forget(self) -> None:
        """Starts to measure."""
        self.longest = 0.0


async def stream(client: httpx2.AsyncClient, model: str, number: int, pauses: Pauses) -> None:
    """Reads one stream to its end."""
    body = {
        "model": model,
        "prompt": story_prompt(number, SENTENCE_COUNT),
        "max_tokens": TOKEN_COUNT,
        "temperature": 0,
        "ignore_eos": True,
    }
    async with client.stream("POST", "/v1/completions", json=body | {"stream": True, "cache": False}) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                pauses.take(json.loads(line.removeprefix("data: "))["choices"][0]["text"])


async def measure_round(url: str, model: str, first: int, worker: str) -> list[Pauses]:
    """Runs streams, drains a worker under them, and returns their pauses since then."""
    async with httpx2.AsyncClient(base_url=url, timeout=TIMEOUT) as client:
        streams = [Pauses() for _ in range(STREAM_COUNT)]
        tasks = [asyncio.create_task(stream(client, model, first + index, each)) for index, each in enumerate(streams)]
        await asyncio.gather(*(each.begun.wait() for each in streams))
        for each in streams:
            each.forget()
        response = await client.post(f"/headrace/workers/{worker}/drain")
        response.raise_for_status()
        await asyncio.gather(*tasks)
        return streams


def measure(rounds: int, folder: Path, shape: str) -> dict[str, dict[str, list[float]]]:
    """Figures of each kind, one per round, in ms: the longest pause of all streams, and the mean of each one's longest;
    and the number of requests that moved."""
    figures: dict[str, dict[str, list[float]]] = {kind: defaultdict(list) for kind in KINDS}
    with platforms_of_kinds(folder, shape) as platforms:
        for number in range(rounds):
            texts = []
            for kind, platform in platforms.items():
                before = platform.metrics().get(MOVES, 0)
                worker = f"worker-{number % 2}"
                found = asyncio.run(measure_round(platform.http, MODEL, STREAM_COUNT * number, worker))
                texts.append([each.text for each in found])
                figures[kind]["longest pause of all"].append(1e3 * max(each.longest for each in found))
                figures[kind]["longest of each, mean"].append(1e3 * statistics.mean(each.longest for each in found))
                figures[kind]["moved"].append(platform.metrics()[MOVES] - before)
                platform.wait_until_restarted(worker, number // 2 + 1)
            assert texts[0] == texts[1], "a moved request has another text"
    return figures


def as_markdown(figures: dict[str, dict[str, list[float]]], command: str) -> str:
    """The page for docs/results."""
    rows = []
    for name in ("longest pause of all", "longest of each, mean"):
        computed, fetched = (figures[kind][name] for kind in KINDS)
        ratio = statistics.median(b / a for a, b in zip(computed, fetched, strict=True))
        rows.append(
            f"| {name} | {statistics.median(computed):.0f} ms | {statistics.median(fetched):.0f} ms | {ratio:.2f} |"
        )
    table = "\n".join(["| | computed | fetched | ratio |", "|---|---|---|---|", *rows])
    date = time.strftime("%Y-%m-%d", time.gmtime())
    moved = {kind: [int(count) for count in figures[kind]["moved"]] for kind in KINDS}
    return f"""# Streams while their worker is drained

`{command}`, {date}, {machine.machine()}, {len(os.sched_getaffinity(0))} cores.
The bundled model, grown, without speculation; one thread for each of two workers. {STREAM_COUNT} streams with
prompts of some 1,100 tokens; one of the two workers is drained. Medians of interleaved rounds; the ratio is the
median of the rounds' ratios, fetched to computed. All texts were equal.

{table}

Requests that moved, in each round: {moved["computed"]} computed, {moved["fetched"]} fetched.
"""


if __name__ == "__main__":
    write_page("moved_requests", __doc__, measure, as_markdown)
