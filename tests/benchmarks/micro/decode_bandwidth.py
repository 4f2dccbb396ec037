"""Share of the memory's read bandwidth that decoding one sequence takes, weights in 4 bits.

    python -m tests.benchmarks.micro.decode_bandwidth [--shape tinyllama-1.1b] [--rounds 9] [--folder FOLDER]

Each round probes the read bandwidth and decodes 50 tokens at once after it; what a token reads are the weights with
their scales, keys and values not counted. Medians over the rounds. `--folder` keeps the model for the next time. Ends
with one JSON line.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.table import Table
from tests.benchmarks.peers.probe import read_bandwidth
from tests.benchmarks.peers.shapes import projection_sizes, read_shape, write_checkpoint

from headrace.cli.output import console, print_json
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.loading.load_text_engine import load_text_engine

STEPS = 50
GROUP, SCALE_BYTES = 128, 4
"""Inputs that share a scale and a zero point, and what those take."""


def token_bytes(config: dict[str, Any]) -> float:
    """Bytes read per token: the layers' matrices, in 4 bits, and the head, in 8."""
    layer = sum(out_size * in_size for out_size, in_size in projection_sizes(config).values())
    head = config["vocab_size"] * config["hidden_size"]
    scales = SCALE_BYTES / GROUP
    return config["num_hidden_layers"] * layer * (0.5 + scales) + head * (1 + scales)


def decode(engine: TextEngine, steps: int) -> float:
    """Seconds per token of the one sequence there is."""
    started = time.perf_counter()
    for _ in range(steps):
        engine.step()
    return (time.perf_counter() - started) / steps


def measure(engine: TextEngine, read_bytes: float, rounds: int, threads: int) -> list[dict[str, float]]:
    """Tokens per second, GB/s of weights and of the probe, and their ratio, round by round."""
    sampling = SamplingParams(max_tokens=(rounds + 1) * STEPS, temperature=0, ignore_eos=True)
    engine.add(EngineRequest("r", tuple(range(300, 316)), sampling))
    decode(engine, STEPS // 2)
    found = []
    for _ in range(rounds):
        bandwidth = read_bandwidth(threads)
        seconds = decode(engine, STEPS)
        read = read_bytes / seconds / 1e9
        found.append({"tok/s": 1 / seconds, "GB/s read": read, "GB/s probed": bandwidth, "share": read / bandwidth})
    return found


def load(folder: Path, shape: str, threads: int) -> TextEngine:
    checkpoint = folder / Path(shape).stem if shape.endswith(".json") else folder / shape
    if not (checkpoint / "config.json").exists():
        write_checkpoint(checkpoint, read_shape(shape))
    config = EngineConfig(
        speculation="off", precision="int4", thread_count=threads, block_count=128, packed_folder=folder / "packed"
    )
    load_text_engine(checkpoint, config).close()
    return load_text_engine(checkpoint, config)


def main() -> None:
    """Prints a table, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="tinyllama-1.1b")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        engine = load(arguments.folder or Path(name), arguments.shape, arguments.threads)
        read_bytes = token_bytes(read_shape(arguments.shape))
        rounds = measure(engine, read_bytes, arguments.rounds, arguments.threads)
    table = Table(*rounds[0], box=None, header_style="dim", title=f"{arguments.shape}, {arguments.threads} threads")
    for row in rounds:
        table.add_row(*(f"{value:.2f}" for value in row.values()))
    medians = {name: round(statistics.median(row[name] for row in rounds), 3) for name in rounds[0]}
    table.add_section()
    table.add_row(*(f"{value:.2f}" for value in medians.values()))
    console.print(table)
    print_json({"shape": arguments.shape, "threads": arguments.threads, "medians": medians, "rounds": rounds})


if __name__ == "__main__":
    main()
