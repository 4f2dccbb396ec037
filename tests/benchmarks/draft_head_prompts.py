"""Time of prompts that a draft head reads too: `python -m tests.benchmarks.draft_head_prompts [--shape 300m]`.

Each round reads a prompt of its own with and without the head, each of them first in turn, and the next token. Prints
medians in seconds, their ratio, and how far equal runs without the head differ.
"""

import argparse
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.grown_head import grow_head
from tests.benchmarks.grown_model import SHAPES, grow

from headrace.cli.output import print_json
from headrace.demo_model import CHECKPOINT, DRAFT_HEAD
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.loading.load_text_engine import load_text_engine


def load(folder: Path, shape: str) -> dict[str, TextEngine]:
    """Loads one engine for each mode."""
    grow(CHECKPOINT, folder / "target", SHAPES[shape][0])
    grow_head(DRAFT_HEAD, folder / "head", SHAPES[shape][0])
    usual: dict[str, Any] = {"block_count": 512, "precision": "int4", "packed_folder": folder / "packed"}
    modes: dict[str, dict[str, Any]] = {
        "off": {"speculation": "off"},
        "control": {"speculation": "off"},
        "head": {"draft_folder": folder / "head"},
    }
    return {name: load_text_engine(folder / "target", EngineConfig.of(**usual, **mode)) for name, mode in modes.items()}


def read(engine: TextEngine, prompt: tuple[int, ...]) -> float:
    """Returns the seconds from a prompt to its first token."""
    engine.add(EngineRequest("prompt", prompt, SamplingParams(max_tokens=1, temperature=0)))
    started = time.perf_counter()
    while engine.has_work():
        engine.step()
    return time.perf_counter() - started


def main() -> None:
    """Prints one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="300m")
    parser.add_argument("--tokens", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    source = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        engines = load(Path(name), arguments.shape)
        seconds: dict[str, list[float]] = {mode: [] for mode in engines}
        modes = list(engines)
        for _ in range(arguments.rounds):
            prompt = tuple(source.randrange(5, 2048) for _ in range(arguments.tokens))
            for mode in modes:
                seconds[mode].append(read(engines[mode], prompt))
            modes.append(modes.pop(0))
    medians = {mode: round(statistics.median(found), 4) for mode, found in seconds.items()}
    ratios = {
        mode: round(statistics.median(one / plain for one, plain in zip(seconds[mode], seconds["off"], strict=True)), 3)
        for mode in seconds
    }
    print_json({"shape": arguments.shape, "tokens": arguments.tokens, "seconds": medians, "ratio": ratios})


if __name__ == "__main__":
    main()
