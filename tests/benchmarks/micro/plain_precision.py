"""Speed and memory of plain weights in each precision, through the kernels, and through torch in bfloat16.

    python -m tests.benchmarks.micro.plain_precision [--shape smollm2-135m] [--layers 30] [--rounds 9]

The checkpoint is in fp32. All engines are in one process and take turns, in every round: a prompt of 512 tokens, then
steps of 1 and of 8 sequences that generate. Medians over the rounds, and ratios to float32 of the same round. Ends with
one JSON line.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from rich.table import Column, Table
from safetensors.torch import load_file, save_file
from tests.benchmarks.peers.shapes import read_shape, write_checkpoint
from tests.benchmarks.peers.workload import PREFILL_TOKENS, prompt

from headrace.cli.output import console, print_json
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.loading.load_text_engine import load_text_engine

CASES: dict[str, dict[str, Any]] = {
    "float32": {"precision": "float32"},
    "bfloat16": {"precision": "bfloat16"},
    "float16": {"precision": "float16"},
    "bfloat16, torch": {"precision": "bfloat16", "kernels": "torch"},
}
BATCHES = (1, 8)
STEPS = 10
MIB = 1 << 20
Measured = dict[str, float]


def widen(path: Path) -> None:
    """Stores a checkpoint's numbers in fp32, with bits that bfloat16 and float16 do not have."""
    torch.manual_seed(0)
    save_file({name: each.float() * (1 + torch.rand(each.shape) / 512) for name, each in load_file(path).items()}, path)


def load(folder: Path, settings: dict[str, Any], threads: int) -> TextEngine:
    config = EngineConfig.of(
        speculation="off", thread_count=threads, block_count=256, prefix_cache=False, packed_folder=None, **settings
    )
    return load_text_engine(folder, config)


def run(engine: TextEngine, count: int, tokens: int, outputs: int) -> tuple[float, float]:
    """Returns the seconds that all prompts take, and those of a step after them."""
    sampling = SamplingParams(max_tokens=outputs, temperature=0, ignore_eos=True)
    for index in range(count):
        engine.add(EngineRequest(str(index), tuple(prompt(index, tokens)), sampling))
    started, begun = time.perf_counter(), set[str]()
    while len(begun) < count:
        begun |= {delta.request_id for delta in engine.step() if delta.token_ids}
    after, steps = time.perf_counter(), 0
    while engine.has_work():
        engine.step()
        steps += 1
    return after - started, (time.perf_counter() - after) / max(steps, 1)


def measure(engine: TextEngine) -> Measured:
    """Returns tokens per second."""
    found = {"prefill": PREFILL_TOKENS / run(engine, 1, PREFILL_TOKENS, 1)[0]}
    return found | {f"batch {count}": count / run(engine, count, 16, 1 + STEPS)[1] for count in BATCHES}


def summary(rounds: list[dict[str, Measured]], case: str) -> dict[str, tuple[float, float]]:
    """Returns the median of each measure, and of its ratio to float32 in the same round."""
    return {
        name: (
            statistics.median(each[case][name] for each in rounds),
            statistics.median(each[case][name] / each["float32"][name] for each in rounds),
        )
        for name in rounds[0][case]
    }


def main() -> None:
    """Prints a table, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="smollm2-135m")
    parser.add_argument("--layers", type=int, default=0, help="0: as many as the shape has")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    arguments = parser.parse_args()
    shape = read_shape(arguments.shape)
    shape |= {"num_hidden_layers": arguments.layers or shape["num_hidden_layers"]}
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        write_checkpoint(Path(name), shape)
        for path in Path(name).glob("*.safetensors"):
            widen(path)
        engines = {case: load(Path(name), settings, arguments.threads) for case, settings in CASES.items()}
    for engine in engines.values():
        measure(engine)
    rounds = [{case: measure(engine) for case, engine in engines.items()} for _ in range(arguments.rounds)]
    rows = {case: summary(rounds, case) for case in CASES}
    memory = {case: engine.spec.memory for case, engine in engines.items()}
    table = Table(Column(no_wrap=True), "weights, MiB", "KV, MiB", *rows["float32"], box=None, header_style="dim")
    for case, row in rows.items():
        held = f"{memory[case].weight_bytes / MIB:.0f}", f"{memory[case].kv_bytes / MIB:.1f}"
        table.add_row(case, *held, *(f"{rate:.1f} ({ratio:.2f})" for rate, ratio in row.values()))
    console.print(table)
    print_json({"shape": arguments.shape, "layers": shape["num_hidden_layers"], "tokens_per_second": rows})


if __name__ == "__main__":
    main()
