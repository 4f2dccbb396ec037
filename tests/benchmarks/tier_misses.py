"""Cost of the tiers of KV blocks for prompts that no tier knows.

    python -m tests.benchmarks.tier_misses [--rounds 40] [--shape 310m] [--write PATH]

Two platforms of one worker each: one keeps KV blocks on a disk and in the shared store, the other keeps none. Each
round sends both of them the same new prompt, one after the other, in random order. Measured are the time to the first
token and the processor time, with what is written behind the step: of the worker, and of all services. Ratios are those
of a round; their median has an interval of 95 % by bootstrap.
"""

import contextlib
import os
import platform as machine
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import lmdb
import psutil
from tests.benchmarks.grown_model import SHAPES, grow
from tests.benchmarks.grown_page import write_page
from tests.benchmarks.read_stream import MODEL, Stream
from tests.benchmarks.story_prompt import story_prompt
from tests.harness.running_platform import ONE_TOKENIZER, RunningPlatform, running_platform

from headrace.demo_model import CHECKPOINT

SENTENCE_COUNT, TOKEN_COUNT = 26, 2
WARM_ROUNDS = 2
START_SECONDS = 300.0
SETTLE_SECONDS = 0.7
"""Time for blocks to be written behind the step, which counts for both platforms alike."""
RESAMPLES = 4000
MIN_BLOCKS = 10
MAGIC = b"HRKVSLT2"
TIERS = ("--kv-folder-size", "256M", "--kv-store-size", "512M")
FIGURES = {"first token": "time to the first token", "worker": "processor time, worker", "all": "processor time, all"}
Samples = dict[str, dict[str, list[float]]]


@contextlib.contextmanager
def both_platforms(folder: Path, shape: str) -> Iterator[dict[str, RunningPlatform]]:
    """Yields the platforms by kind."""
    checkpoint, config = folder / MODEL, folder / "headrace.toml"
    grow(CHECKPOINT, checkpoint, SHAPES[shape][0])
    config.write_text("[worker]\nspeculation = 'off'\n")
    kinds = {"without": (), "tiers": ("--kv-folder", str(folder / "blocks"), *TIERS)}
    with contextlib.ExitStack() as stack:
        platforms = {}
        for kind, flags in kinds.items():
            arguments = [str(checkpoint), "--config", str(config), *flags]
            started = running_platform(folder / kind, arguments, START_SECONDS, ONE_TOKENIZER)
            platforms[kind] = stack.enter_context(started)
        yield platforms


def processor_seconds(platform: RunningPlatform) -> dict[str, float]:
    """Processor time so far of the worker, and of all services."""
    seconds = {}
    for service in platform.describe()["services"]:
        spent = psutil.Process(service["pid"]).cpu_times()
        seconds[service["name"]] = spent.user + spent.system
    return {"worker": seconds["worker-0"], "all": sum(seconds.values())}


def measure_one(platform: RunningPlatform, text: str) -> tuple[dict[str, float], str]:
    """Returns the figures of a request, in seconds, and its text."""
    before = processor_seconds(platform)
    stream = Stream(platform.http, text, TOKEN_COUNT).wait()
    time.sleep(SETTLE_SECONDS)
    after = processor_seconds(platform)
    assert stream.cached == 0, "a new prompt was known"
    spent = {name: after[name] - before[name] for name in before}
    return spent | {"first token": stream.first_seconds}, stream.text


def measure(rounds: int, folder: Path, shape: str) -> Samples:
    """Figures of each kind, one per round."""
    samples: Samples = {name: defaultdict(list) for name in FIGURES}
    dice = random.Random(11)
    with both_platforms(folder, shape) as platforms:
        for number in range(rounds + WARM_ROUNDS):
            texts = set()
            for kind in dice.sample([*platforms], len(platforms)):
                found, text = measure_one(platforms[kind], story_prompt(1000 + number, SENTENCE_COUNT))
                texts.add(text)
                if number >= WARM_ROUNDS:
                    for name, value in found.items():
                        samples[name][kind].append(value)
            assert len(texts) == 1, "the tiers changed a text"
        check_written(platforms["tiers"], folder / "blocks")
    return samples


def check_written(platform: RunningPlatform, disk: Path) -> None:
    """Asserts that blocks of each prompt are on the disk and in the store."""
    (file,) = disk.glob("*.kv")
    with lmdb.open(str(platform.state_dir / "cache" / "kv"), readonly=True, max_dbs=1) as environment:
        stored = environment.open_db(b"records", create=False)
        with environment.begin(db=stored) as transaction:
            assert int(transaction.stat(stored)["entries"]) >= MIN_BLOCKS
    assert file.read_bytes().count(MAGIC) >= MIN_BLOCKS


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """Bounds between which the median lies with a chance of 95 %: percentiles of medians of resamples."""
    dice = random.Random(5)
    medians = sorted(statistics.median(dice.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    return medians[RESAMPLES // 40], medians[-RESAMPLES // 40]


def as_markdown(samples: Samples, command: str) -> str:
    """The page for docs/results."""
    rows = []
    for name, title in FIGURES.items():
        with_tiers, without = samples[name]["tiers"], samples[name]["without"]
        ratios = [a / b for a, b in zip(with_tiers, without, strict=True)]
        low, high = interval(ratios)
        medians = f"{1e3 * statistics.median(without):.0f} ms | {1e3 * statistics.median(with_tiers):.0f} ms"
        rows.append(f"| {title} | {medians} | {statistics.median(ratios):.4f} | {low:.4f} to {high:.4f} |")
    table = "\n".join(["| per request | without | with tiers | ratio | 95 % |", "|---|---|---|---|---|", *rows])
    about = f"{time.strftime('%Y-%m-%d', time.gmtime())}, {machine.machine()}, {len(os.sched_getaffinity(0))} cores"
    return f"""# What tiers of KV blocks cost prompts that none knows

`{command}`, {about}.
The bundled model, grown, without speculation; new prompts of some {10 * SENTENCE_COUNT} tokens, each sent to a
platform with a disk and a shared store and to one without, in random order; {len(samples["all"]["tiers"])} rounds.
Medians; a ratio is the median of the rounds' ratios. Processor time includes {1e3 * SETTLE_SECONDS:.0f} ms after the
answer, in which blocks are written. All texts were equal.

{table}
"""


if __name__ == "__main__":
    write_page("tier_misses", __doc__, measure, as_markdown)
