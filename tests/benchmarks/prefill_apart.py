"""Evenness of answers while long prompts come, with prompts computed apart and without.

    python -m tests.benchmarks.prefill_apart [--rounds 3] [--write PATH]

Two workers each: either both run whole requests, or one computes prompts for the other. A few answers are streamed
while long prompts, each different, come one after the other. Rounds of the two are interleaved. Told are quantiles of
the time between tokens of the answers, the time to the first token of the long prompts, and the ratio of both kinds.
"""

import argparse
import asyncio
import contextlib
import os
import platform as machine
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
from tests.harness.running_platform import RunningPlatform, running_platform

KINDS = {"together": ["--replicas", "2"], "apart": ["--prefill-workers", "1"]}
STREAM_COUNT, PROMPT_COUNT, SENTENCE_COUNT = 2, 8, 60
MIN_TOKENS = 256
TIMEOUT = 120.0
MODEL = "headrace-demo"
FOUND = "headrace_prefix_cache_hits_total"
"""Metric of the prompt tokens whose keys and values were there when a request began."""


def long_prompt(number: int) -> str:
    """A prompt of some 600 tokens that begins as no other does."""
    return f"Story {number}. " + " ".join(f"The river {index * 7 + number} flows." for index in range(SENTENCE_COUNT))


async def streamed(client: httpx2.AsyncClient, prompt: str, token_count: int) -> AsyncGenerator[float, None]:
    """Yields the time of each piece of an answer. Pieces that arrive together count once."""
    body = {"model": MODEL, "prompt": prompt, "max_tokens": token_count, "temperature": 0, "ignore_eos": True}
    async with client.stream("POST", "/v1/completions", json=body | {"stream": True}) as response:
        async for chunk in response.aiter_raw():
            if b'"text"' in chunk:
                yield time.perf_counter()


async def measure_round(url: str, number: int) -> tuple[list[float], list[float]]:
    """Seconds between pieces of the answers, and to the first piece of each long prompt."""
    gaps: list[float] = []
    firsts: list[float] = []
    began = asyncio.Event()

    async def answer(client: httpx2.AsyncClient, index: int) -> None:
        last = None
        while True:
            async for moment in streamed(client, f"Once upon a time {index}", 1200):
                if last is not None and began.is_set():
                    gaps.append(moment - last)
                last = moment
            last = None

    async with httpx2.AsyncClient(base_url=url, timeout=TIMEOUT) as client:
        answers = [asyncio.create_task(answer(client, index)) for index in range(STREAM_COUNT)]
        await asyncio.sleep(0.5)
        began.set()
        for index in range(PROMPT_COUNT):
            asked = time.perf_counter()
            async with contextlib.aclosing(streamed(client, long_prompt(1000 * number + index), 4)) as pieces:
                firsts.append(await anext(pieces) - asked)
        for task in answers:
            task.cancel()
        await asyncio.gather(*answers, return_exceptions=True)
    return gaps, firsts


def measure(round_count: int, folder: Path) -> tuple[dict[str, dict[str, list[float]]], dict[str, list[int]]]:
    """Figures of each kind, one per round: quantiles of gaps, and the median first token of long prompts, in ms;
    and the prompt tokens in each round that were not computed where they were answered."""
    config = folder / "headrace.toml"
    config.write_text(f"[scheduler]\nleast_transfer_token_count = {MIN_TOKENS}\n\n[worker]\nspeculation = 'off'\n")
    figures: dict[str, dict[str, list[float]]] = {kind: defaultdict(list) for kind in KINDS}
    found_counts: dict[str, list[int]] = {kind: [] for kind in KINDS}
    with contextlib.ExitStack() as stack:
        platforms: dict[str, RunningPlatform] = {}
        for kind, arguments in KINDS.items():
            state = folder / kind
            started = running_platform(state, [*arguments, "--config", str(config)])
            platforms[kind] = stack.enter_context(started)
        for number in range(-1, round_count):
            for kind, platform in platforms.items():
                before = platform.metrics()[FOUND]
                gaps, firsts = asyncio.run(measure_round(platform.http, number + 1))
                found = platform.metrics()[FOUND] - before
                if number < 0:
                    continue
                cuts = statistics.quantiles(gaps, n=100)
                for name, value in (("p90", cuts[89]), ("p99", cuts[98]), ("longest", max(gaps))):
                    figures[kind][f"between tokens, {name}"].append(1e3 * value)
                figures[kind]["first token of long prompts, median"].append(1e3 * statistics.median(firsts))
                found_counts[kind].append(int(found))
    return figures, found_counts


def as_markdown(figures: dict[str, dict[str, list[float]]], found_counts: dict[str, list[int]], command: str) -> str:
    """The page for docs/results."""
    rows = []
    for name in figures["together"]:
        together, apart = (statistics.median(figures[kind][name]) for kind in KINDS)
        ratios = [b / a for a, b in zip(figures["together"][name], figures["apart"][name], strict=True)]
        rows.append(f"| {name} | {together:.1f} ms | {apart:.1f} ms | {statistics.median(ratios):.2f} |")
    table = "\n".join(["| | together | apart | ratio |", "|---|---|---|---|", *rows])
    date = time.strftime("%Y-%m-%d", time.gmtime())
    cores = len(os.sched_getaffinity(0))
    return f"""# Prompts computed apart

`{command}`, {date}, {machine.machine()}, {cores} cores. The bundled model without speculation.
Medians of interleaved rounds; the ratio is the median of the rounds' ratios, apart to together.

{table}

Two workers each: *together* both run whole requests; *apart* one computes prompts for the other.
{STREAM_COUNT} answers stream while {PROMPT_COUNT} long prompts come one after the other. Of their tokens,
so many were not computed where they were answered, in each round: {found_counts["apart"]},
together {found_counts["together"]}.
"""


def main() -> None:
    """Measures, prints, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", type=Path)
    chosen: Any = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures, found_counts = measure(chosen.rounds, Path(folder))
    page = as_markdown(figures, found_counts, f"python -m tests.benchmarks.prefill_apart --rounds {chosen.rounds}")
    print(page)
    if chosen.write:
        chosen.write.write_text(page)


if __name__ == "__main__":
    main()
