"""Pauses of a stream while long prompts are read, with steps that are kept short and without.

    python -m tests.benchmarks.stream_beside_prompts [--rounds 5] [--shape 300m] [--write PATH]

Two platforms of one worker: on one, prompts are read in parts of 512 tokens however long that takes, on the other in
parts that keep a step to the default of `max_step_seconds`. A stream runs, and four prompts of some 1,000 tokens each
come at once. Rounds of the two are interleaved. Told are the stream's longest pause while they are read, its usual one,
and the times to the prompts' first tokens. Texts must be equal.
"""

import os
import platform as machine
import statistics
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

from tests.benchmarks.grown_page import write_page
from tests.benchmarks.grown_platforms import grown_platforms
from tests.benchmarks.read_stream import TIMEOUT, Stream
from tests.benchmarks.story_prompt import story_prompt
from tests.harness.running_platform import RunningPlatform

KINDS = {"whole parts": "[worker]\nmax_step_seconds = 0\n", "short steps": ""}
SENTENCE_COUNT, PROMPT_COUNT, STREAM_TOKENS = 100, 4, 1500
WARM_TOKENS = 40
"""Tokens of the stream before the prompts come: the worker then knows the times of its steps."""
FIGURES = {
    "longest pause of the stream": "ms",
    "90th percentile of its pauses": "ms",
    "first prompt's first token": "ms",
    "last prompt's first token": "ms",
}


def measure_round(platform: RunningPlatform, number: int) -> tuple[dict[str, float], list[str]]:
    """Returns the figures of a round, in milliseconds, and the prompts' texts."""
    stream = Stream(platform.http, f"Once {number}", STREAM_TOKENS)
    assert stream.begun.wait(TIMEOUT)
    while len(stream.arrivals) < WARM_TOKENS and stream.is_running:
        time.sleep(0.01)
    begun = time.perf_counter()
    prompts = [Stream(platform.http, story_prompt(100 * number + at, SENTENCE_COUNT), 4) for at in range(PROMPT_COUNT)]
    firsts = sorted(prompt.wait().first_seconds for prompt in prompts)
    ended = time.perf_counter()
    assert stream.is_running, "the prompts were read beside it"
    stream.end()
    pauses = sorted(after - before for before, after in pairwise(stream.arrivals) if before < ended and after > begun)
    found = (pauses[-1], pauses[int(0.9 * len(pauses))], firsts[0], firsts[-1])
    return dict(zip(FIGURES, (1e3 * each for each in found), strict=True)), [prompt.text for prompt in prompts]


def measure(rounds: int, folder: Path, shape: str) -> dict[str, dict[str, list[float]]]:
    """Figures of each kind, one per round."""
    figures: dict[str, dict[str, list[float]]] = {kind: defaultdict(list) for kind in KINDS}
    with grown_platforms(folder, shape, KINDS) as platforms:
        for number in range(rounds + 1):
            texts = []
            for kind, platform in platforms.items():
                found, text = measure_round(platform, number)
                texts.append(text)
                if number:  # In the first one the workers learn the times of their steps.
                    for name, value in found.items():
                        figures[kind][name].append(value)
            assert texts[0] == texts[1], "prompts in other parts give another text"
    return figures


def as_markdown(figures: dict[str, dict[str, list[float]]], command: str) -> str:
    """The page for docs/results."""
    rows = []
    for name, unit in FIGURES.items():
        whole, short = (figures[kind][name] for kind in KINDS)
        ratio = statistics.median(b / a for a, b in zip(whole, short, strict=True))
        medians = f"{statistics.median(whole):.0f} {unit} | {statistics.median(short):.0f} {unit}"
        rows.append(f"| {name} | {medians} | {ratio:.2f} |")
    table = "\n".join(["| | parts of 512 tokens | short steps | ratio |", "|---|---|---|---|", *rows])
    return f"""# A stream beside long prompts

`{command}`, {time.strftime("%Y-%m-%d", time.gmtime())}, {machine.machine()}, {len(os.sched_getaffinity(0))} cores.
The bundled model, grown; one worker. {PROMPT_COUNT} prompts of some 1,000 tokens come at once beside a stream. Medians
of interleaved rounds; the ratio is the median of the rounds' ratios, short steps to parts of 512 tokens. All texts were
equal.

{table}
"""


if __name__ == "__main__":
    write_page("stream_beside_prompts", __doc__, measure, as_markdown)
