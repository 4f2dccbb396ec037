"""Products of families that are computed layer by layer: with inputs in 8 bits, beside those with inputs as they are.

    python -m tests.benchmarks.micro.layered_products [--threads 1] [--rounds 7] [--layers 4] [--precisions int8 int4]

Whole models with random weights, in tokens per second: a prompt of 512 tokens, and the steps of one and of several
sequences behind it, by the setting `exact`. Both take turns in every round; medians of the rounds, and the median of
the ratios within a round. Ends with one JSON line.
"""

import argparse
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch
from rich.table import Table
from tests.benchmarks.micro.plain_precision import Measured, measure
from tests.benchmarks.micro.recurrences import MODELS as STATES
from tests.libs.engine.tiny_models import make_family

from headrace.cli.output import console, print_json
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.loading.load_text_engine import load_text_engine

EXACT, ROUNDED = "inputs as they are", "inputs in 8 bits"
MODELS: dict[str, dict[str, Any]] = STATES | {
    "deepseek2": {
        "hidden_size": 1024,
        "intermediate_size": 3584,
        "num_attention_heads": 8,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
        "first_k_dense_replace": 99,
    },
}
"""Families with states, and one with latent attention and dense layers alone."""


def load(folder: Path, precision: str, threads: int, *, exact: bool) -> TextEngine:
    """Loads the checkpoint of a folder."""
    config = EngineConfig.of(
        speculation="off", thread_count=threads, block_count=256, prefix_cache=False, packed_folder=None,
        precision=precision, max_running_count=8, exact=exact,
    )  # fmt: skip
    return load_text_engine(folder, config)


def measure_model(name: str, precision: str, arguments: argparse.Namespace) -> list[dict[str, Measured]]:
    """Returns tokens per second of both, round by round."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        facts = {"vocab_size": 4096, "max_position_embeddings": 2048, "initializer_range": 0.02}
        make_family(Path(folder), name, num_hidden_layers=arguments.layers, **facts, **MODELS[name])
        engines = {
            way: load(Path(folder), precision, arguments.threads, exact=way == EXACT) for way in (EXACT, ROUNDED)
        }
    for engine in engines.values():
        measure(engine)
    return [{way: measure(engine) for way, engine in engines.items()} for _ in range(arguments.rounds)]


def summary(rounds: list[dict[str, Measured]], case: str) -> dict[str, float]:
    """Returns medians of one case, and the median of the ratios."""
    medians = {way: statistics.median(each[way][case] for each in rounds) for way in (EXACT, ROUNDED)}
    return medians | {"ratio": statistics.median(each[ROUNDED][case] / each[EXACT][case] for each in rounds)}


def main() -> None:
    """Prints a table, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--precisions", nargs="*", default=["int8", "int4"])
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    arguments = parser.parse_args()
    # As an engine on the kernels has it.
    torch.set_num_threads(1)
    rows: dict[str, dict[str, float]] = {}
    for name in arguments.models:
        for precision in arguments.precisions:
            rounds = measure_model(name, precision, arguments)
            rows |= {f"{name}, {precision}, {case}": summary(rounds, case) for case in rounds[0][EXACT]}
    table = Table("tokens per second", EXACT, ROUNDED, "times as fast", box=None, header_style="dim")
    for title, row in rows.items():
        table.add_row(title, f"{row[EXACT]:.1f}", f"{row[ROUNDED]:.1f}", f"{row['ratio']:.2f}")
    console.print(table)
    print_json({"threads": arguments.threads, "cores": os.cpu_count(), "layers": arguments.layers, "rows": rows})


if __name__ == "__main__":
    main()
