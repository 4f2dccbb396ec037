"""Time in which a platform of two new workers reads long prompts that come together.

    python -m tests.benchmarks.new_workers [--folder PATH]

One prompt goes first, so that one worker has measured its pace and the other has only proved its model. Then rounds of
several prompts come at once, each of other tokens. Printed are the workers that took them, and the time of each round.
"""

import argparse
import random
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
from tests.harness.running_platform import RunningPlatform, running_platform

from headrace.demo_model import CHECKPOINT

MODEL = "headrace-demo"
PROMPT_TOKENS, OUTPUT_TOKENS = 1500, 64
ROUNDS = (2, 4, 6, 8, 8, 8)
REQUEST_SECONDS = 120.0


def main() -> None:
    """Prints a row for each round."""
    parser = argparse.ArgumentParser("python -m tests.benchmarks.new_workers", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(CHECKPOINT))
    folder = parser.parse_args().folder
    with tempfile.TemporaryDirectory() as state:
        arguments = ["--replicas", "2", f"{MODEL}={folder}"]
        with running_platform(Path(state) / "state", arguments) as platform:
            worker_of(platform)
            print("| prompts at once | workers that took them | seconds |\n| -: | :- | -: |")
            for count in ROUNDS:
                print(row(platform, count), flush=True)


def row(platform: RunningPlatform, count: int) -> str:
    """Sends some prompts at once. Returns a row of Markdown."""
    started = time.monotonic()
    with ThreadPoolExecutor(count) as pool:
        workers = Counter(pool.map(lambda _: worker_of(platform), range(count)))
    taken = ", ".join(f"{workers[worker]} by {worker}" for worker in sorted(workers))
    return f"| {count} | {taken} | {time.monotonic() - started:.2f} |"


def worker_of(platform: RunningPlatform) -> str:
    """Asks for the continuation of a new prompt. Returns the worker that gave it."""
    body = {
        "model": MODEL,
        "prompt": [random.randrange(5, 900) for _ in range(PROMPT_TOKENS)],
        "max_tokens": OUTPUT_TOKENS,
        "ignore_eos": True,
        "cache": False,
        "timings": True,
    }
    answer = httpx2.post(f"{platform.http}/v1/completions", json=body, timeout=REQUEST_SECONDS)
    return str(answer.raise_for_status().json()["timings"]["worker"])


if __name__ == "__main__":
    main()
