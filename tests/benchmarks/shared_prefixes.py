"""First tokens of prompts whose beginning another worker holds, with KV blocks that travel and without.

    python -m tests.benchmarks.shared_prefixes [--rounds 5] [--shape 300m] [--write PATH]

Two platforms of two workers each, of which each runs one request at a time. A stream whose prompt begins with some
1,000 tokens runs on one worker; a request with the same beginning then goes to the other one. On one platform it
fetches the KV blocks from the worker that holds them, on the other it computes them. Rounds of the two are
interleaved. Told are the times to the first token, the tokens that were not computed, and what a prompt costs that no
worker holds. Texts must be equal.
"""

import os
import platform as machine
import statistics
import time
from collections import defaultdict
from pathlib import Path

from tests.benchmarks.blocks_that_travel import KINDS, platforms_of_kinds
from tests.benchmarks.grown_page import write_page
from tests.benchmarks.read_stream import TIMEOUT, Stream
from tests.benchmarks.story_prompt import story_prompt
from tests.harness.running_platform import RunningPlatform

SENTENCE_COUNT, TOKEN_COUNT, STREAM_TOKENS = 100, 4, 900


def prompt(number: int) -> str:
    """A beginning of some 1,000 tokens, which no other number has."""
    return story_prompt(number, SENTENCE_COUNT)


def measure_round(platform: RunningPlatform, number: int) -> tuple[Stream, Stream]:
    """Returns a request whose beginning the other worker holds, and one whose beginning none does."""
    url = platform.http
    holding = Stream(url, prompt(number), STREAM_TOKENS)
    assert holding.begun.wait(TIMEOUT)
    shared = Stream(url, f"{prompt(number)} Then", TOKEN_COUNT).wait()
    other = Stream(url, f"{prompt(number + 500_000)} Then", TOKEN_COUNT).wait()
    assert holding.is_running, "both were measured beside it"
    holding.end()
    return shared, other


def measure(rounds: int, folder: Path, shape: str) -> dict[str, dict[str, list[float]]]:
    """Figures of each kind, one per round: milliseconds to first tokens, and cached tokens."""
    figures: dict[str, dict[str, list[float]]] = {kind: defaultdict(list) for kind in KINDS}
    with platforms_of_kinds(folder, shape, "max_running_count = 1") as platforms:
        for number in range(rounds + 1):
            texts = []
            for kind, platform in platforms.items():
                shared, other = measure_round(platform, number)
                texts.append((shared.text, other.text))
                if number:  # The first one opens connections and measures rates.
                    figures[kind]["held by the other worker"].append(1e3 * shared.first_seconds)
                    figures[kind]["held by none"].append(1e3 * other.first_seconds)
                    figures[kind]["cached"].append(shared.cached)
            assert texts[0] == texts[1], "blocks that travelled give another text"
    return figures


def as_markdown(figures: dict[str, dict[str, list[float]]], command: str) -> str:
    """The page for docs/results."""
    rows = []
    for name in ("held by the other worker", "held by none"):
        computed, fetched = (figures[kind][name] for kind in KINDS)
        ratio = statistics.median(a / b for a, b in zip(computed, fetched, strict=True))
        medians = f"{statistics.median(computed):.0f} ms | {statistics.median(fetched):.0f} ms"
        rows.append(f"| {name} | {medians} | {ratio:.2f} |")
    table = "\n".join(["| beginning | computed | fetched | ratio |", "|---|---|---|---|", *rows])
    cached = {kind: [int(count) for count in figures[kind]["cached"]] for kind in KINDS}
    return f"""# Prompts whose beginning another worker holds

`{command}`, {time.strftime("%Y-%m-%d", time.gmtime())}, {machine.machine()}, {len(os.sched_getaffinity(0))} cores.
The bundled model, grown, without speculation; one thread for each of two workers, which run one request at a time. A
stream with a prompt of some 1,000 tokens runs on one worker; a request that begins with the same tokens goes to the
other. Times to first tokens: medians of interleaved rounds; the ratio is the median of the rounds' ratios, computed to
fetched. All texts were equal.

{table}

Cached tokens of the requests, in each round: {cached["computed"]} computed, {cached["fetched"]} fetched.
"""


if __name__ == "__main__":
    write_page("shared_prefixes", __doc__, measure, as_markdown)
