"""Time to the first token of prompts that a worker computed before it was restarted, with a disk of KV blocks.

    python -m tests.benchmarks.kept_blocks [--rounds 5] [--shape 300m] [--write PATH]

One worker with `kv_folder`. Each round: a new prompt of some 1,100 tokens (computed), the same once more (memory), the
worker is killed and restarted, the same again (disk), and one more new prompt (computed). Told are medians, and the
medians of the rounds' ratios. Texts of the same prompt must be equal. A second platform without `kv_folder` computes as
many new prompts in turn with the first: the cost of prompts that the disk knows nothing of.
"""

import contextlib
import json
import os
import platform as machine
import statistics
import time
from collections import defaultdict
from pathlib import Path

import httpx2
from tests.benchmarks.grown_model import SHAPES, grow
from tests.benchmarks.grown_page import write_page
from tests.benchmarks.story_prompt import story_prompt
from tests.harness.running_platform import ONE_TOKENIZER, RunningPlatform, running_platform

from headrace.demo_model import CHECKPOINT

SENTENCE_COUNT = 110
TIMEOUT = 300.0
SETTLE_SECONDS = 3.0
"""Time for blocks to be written, before a worker is killed."""
KEPT_BYTES = 1 << 30
Figures = dict[str, list[float]]


def first_token(client: httpx2.Client, model: str, number: int) -> tuple[float, str, int]:
    """Returns the time to the first token in ms, the text, and the tokens of the prompt that were cached."""
    body = {
        "model": model,
        "prompt": story_prompt(number, SENTENCE_COUNT),
        "max_tokens": 8,
        "temperature": 0,
        "cache": False,
    }
    options = {"stream": True, "stream_options": {"include_usage": True}}
    started, first, text, cached = time.perf_counter(), 0.0, "", 0
    with client.stream("POST", "/v1/completions", json=body | options) as response:
        response.raise_for_status()
        for line in response.iter_lines():
            if not line.startswith("data: {"):
                continue
            event = json.loads(line.removeprefix("data: "))
            first = first or time.perf_counter() - started
            text += "".join(choice["text"] for choice in event["choices"])
            if event.get("usage"):
                cached = event["usage"]["prompt_tokens_details"]["cached_tokens"]
    return 1e3 * first, text, cached


def measure_round(keeping: RunningPlatform, without: RunningPlatform, number: int, figures: Figures) -> None:
    """Adds the figures of one round."""
    with httpx2.Client(base_url=keeping.http, timeout=TIMEOUT) as client:
        computed, text, _ = first_token(client, "grown", 3 * number)
        memory, again, _ = first_token(client, "grown", 3 * number)
        time.sleep(SETTLE_SECONDS)
        keeping.kill("worker-0")
        keeping.wait_until_restarted("worker-0", number + 1)
        disk, third, cached = first_token(client, "grown", 3 * number)
        assert text == again == third, "a prompt from the disk has another text"
        assert cached > 1000, f"only {cached} tokens came from the disk"
        fresh, *_ = first_token(client, "grown", 3 * number + 1)
    with httpx2.Client(base_url=without.http, timeout=TIMEOUT) as client:
        alone, *_ = first_token(client, "grown", 3 * number + 1)
    for name, value in (("computed", computed), ("memory", memory), ("disk", disk), ("new", fresh), ("alone", alone)):
        figures[name].append(value)


def measure(rounds: int, folder: Path, shape: str) -> Figures:
    """Times to the first token in ms, one per round: of new prompts, of the same from memory and from the disk, and of
    new prompts after the restart with and without a disk."""
    checkpoint, figures = folder / "grown", defaultdict[str, list[float]](list)
    grow(CHECKPOINT, checkpoint, SHAPES[shape][0])
    with contextlib.ExitStack() as stack:
        started = []
        kept = f"kv_folder = '{folder / 'kv'}'\nkv_folder_bytes = {KEPT_BYTES}\n"
        for name, line in (("keeping", kept), ("without", "")):
            config = folder / f"{name}.toml"
            config.write_text(f"[worker]\nspeculation = 'off'\n{line}")
            arguments = [str(checkpoint), "--config", str(config)]
            started.append(stack.enter_context(running_platform(folder / name, arguments, counts=ONE_TOKENIZER)))
        keeping, without = started
        for number in range(rounds):
            measure_round(keeping, without, number, figures)
    return figures


def as_markdown(figures: Figures, command: str) -> str:
    """The page for docs/results."""
    rows = [
        f"| {title} | {statistics.median(figures[name]):.0f} ms | {_ratio(figures, name, base)} |"
        for title, name, base in (
            ("a new prompt", "computed", ""),
            ("the same, from memory", "memory", "computed"),
            ("the same after a restart, from the disk", "disk", "computed"),
            ("a new prompt after the restart", "new", "alone"),
            ("a new prompt without a disk", "alone", ""),
        )
    ]
    table = "\n".join(["| | time to the first token | ratio |", "|---|---|---|", *rows])
    date = time.strftime("%Y-%m-%d", time.gmtime())
    return f"""# Prompts from a disk of KV blocks

`{command}`, {date}, {machine.machine()}, {len(os.sched_getaffinity(0))} cores.
The bundled model, grown, without speculation; prompts of some 1,100 tokens. The worker is killed and restarted in each
round. Medians; a ratio is the median of the rounds' ratios: to the new prompt, and of new prompts with a disk to those
without. All texts were equal.

{table}
"""


def _ratio(figures: Figures, name: str, base: str) -> str:
    if not base:
        return ""
    return f"{statistics.median(a / b for a, b in zip(figures[name], figures[base], strict=True)):.3f}"


if __name__ == "__main__":
    write_page("kept_blocks", __doc__, measure, as_markdown)
