"""Time of a decoding step with adapters, beside the same model without, weights in 4 bits.

    python -m tests.benchmarks.micro.adapters [--shape tinyllama-1.1b] [--layers 6] [--rank 16] [--wide] [--rounds 9]

Every engine decodes as many sequences as the batch has; they take turns, a few steps each, in every round. "none": the
model without adapters. "loaded": with adapters that no sequence chose. "one": all sequences have the same one. "each":
every sequence has its own. Ratios are of times in the same round; medians over the rounds. Ends with one JSON line.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from safetensors.numpy import save_file
from tests.benchmarks.peers.shapes import projection_sizes, read_shape, write_checkpoint

from headrace.cli.output import console, print_json
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.loading.load_text_engine import load_text_engine

BATCHES = (1, 8)
STEPS = 10
CASES = ("none", "loaded", "one", "each")


def write_adapter(folder: Path, shape: dict[str, Any], rank: int, seed: int, *, is_wide: bool) -> None:
    """Writes an adapter of all projections, in bfloat16 unless `is_wide`, small enough for texts to stay much alike."""
    generator = np.random.default_rng(seed)
    tensors = {}
    for layer in range(shape["num_hidden_layers"]):
        for name, (out_size, in_size) in projection_sizes(shape).items():
            prefix = f"base_model.model.model.layers.{layer}.{name}"
            for side, size in (("A", (rank, in_size)), ("B", (out_size, rank))):
                numbers = generator.standard_normal(size, np.float32) * np.float32(1e-3)
                rounded = (numbers.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
                tensors[f"{prefix}.lora_{side}.weight"] = numbers if is_wide else rounded
    folder.mkdir()
    save_file(tensors, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank, "target_modules": "all-linear"}
    (folder / "adapter_config.json").write_text(json.dumps(config))


def load(folder: Path, adapters: dict[str, Path], threads: int) -> TextEngine:
    config = EngineConfig(
        speculation="off", precision="int4", thread_count=threads, block_count=256, adapters=adapters,
        packed_folder=folder / "packed", prefix_cache=False,
    )  # fmt: skip
    return load_text_engine(folder / "model", config)


def start(engine: TextEngine, case: str, names: list[str], batch: int, tokens: int) -> None:
    """Adds the requests and runs their prompts."""
    sampling = SamplingParams(max_tokens=tokens, temperature=0, ignore_eos=True)
    for index in range(batch):
        request = EngineRequest(f"{case} {index}", tuple(range(300 + index, 316 + index)), sampling)
        chosen = {"one": names[0], "each": names[index % len(names)]}.get(case, "")
        engine.add(replace(request, adapter=chosen))
    for _ in range(STEPS):
        engine.step()


def decode(engine: TextEngine) -> float:
    """Returns seconds per step."""
    started = time.perf_counter()
    for _ in range(STEPS):
        engine.step()
    return (time.perf_counter() - started) / STEPS


def measure(folder: Path, names: list[str], batch: int, rounds: int, threads: int) -> dict[str, float]:
    """Returns the milliseconds of a step without adapters, and the ratio of each other case to it."""
    adapters = {name: folder / name for name in names}
    found: dict[str, list[float]] = {case: [] for case in CASES}
    engines = {case: load(folder, {} if case == "none" else adapters, threads) for case in CASES}
    for case, engine in engines.items():
        start(engine, case, names, batch, (rounds + 3) * STEPS)
    for _ in range(rounds):
        for case, engine in engines.items():
            found[case].append(decode(engine))
    for engine in engines.values():
        engine.close()
    ratios = {case: statistics.median(np.divide(found[case], found["none"]).tolist()) for case in CASES[1:]}
    return {"ms": 1e3 * statistics.median(found["none"])} | ratios


def main() -> None:
    """Prints a table, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="tinyllama-1.1b")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--wide", action="store_true", help="adapters in fp32")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    arguments = parser.parse_args()
    shape = read_shape(arguments.shape) | {"num_hidden_layers": arguments.layers}
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        folder = Path(name)
        write_checkpoint(folder / "model", shape)
        names = [f"adapter{index}" for index in range(max(BATCHES))]
        for seed, each in enumerate(names):
            write_adapter(folder / each, shape, arguments.rank, seed, is_wide=arguments.wide)
        rows = {batch: measure(folder, names, batch, arguments.rounds, arguments.threads) for batch in BATCHES}
    table = Table("batch", *rows[BATCHES[0]], box=None, header_style="dim")
    for batch, row in rows.items():
        table.add_row(str(batch), *(f"{value:.3f}" for value in row.values()))
    console.print(table)
    print_json(
        {
            "shape": arguments.shape,
            "layers": arguments.layers,
            "rank": arguments.rank,
            "wide": arguments.wide,
            "steps": rows,
        }
    )


if __name__ == "__main__":
    main()
