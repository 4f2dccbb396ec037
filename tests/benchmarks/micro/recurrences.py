"""Recurrences and convolutions of states on the CPU kernels, beside those through torch.

    python -m tests.benchmarks.micro.recurrences [--threads 1] [--rounds 7] [--layers 4] [--precision int8]

First single layers, in microseconds a token: one text of 512 tokens, and the next token of one and of eight texts. Then
whole models with random weights, in tokens per second: a prompt of 512 tokens, and the steps of one and of eight
sequences behind it. Both ways take turns in every round; medians of the rounds, and the median of the ratios within a
round. Ends with one JSON line.
"""

import argparse
import os
import statistics
import tempfile
import time
from array import array
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from rich.table import Table
from tests.benchmarks.micro.plain_precision import Measured, measure
from tests.libs.engine.tiny_models import make_family
from torch import Tensor

from headrace.cli.output import console, print_json
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.kernels.context import KernelContext
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.step.step_arrays import StepArrays
from headrace.engine.torch.decoder.mixers import state_reader
from headrace.engine.torch.decoder.recurrences.delta_rule import DeltaInputs
from headrace.engine.torch.decoder.recurrences.kernel_recurrences import KernelRecurrences
from headrace.engine.torch.decoder.recurrences.recurrences import Recurrences
from headrace.engine.torch.decoder.recurrences.space_scan import SpaceInputs
from headrace.engine.torch.decoder.recurrences.torch_recurrences import TorchRecurrences
from headrace.engine.torch.decoder.states.state_arena import StateLayer
from headrace.engine.torch.decoder.states.state_step import StateStep

BEFORE, AFTER = "torch", "kernels"
BATCHES = {"512 tokens": (512,), "1 token": (1,), "8 x 1 token": (1,) * 8}
"""Tokens of each text of a step."""
MODELS: dict[str, dict[str, Any]] = {
    "qwen3_5": {
        "hidden_size": 1024,
        "intermediate_size": 3584,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 16,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
    },
    "mamba2": {"hidden_size": 1024, "num_heads": 32, "head_dim": 64, "state_size": 128, "n_groups": 1},
    "lfm2": {
        "hidden_size": 1024,
        "intermediate_size": 6656,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "block_multiple_of": 256,
    },
}
"""Families, with sizes as of the smallest published models, and Mamba-2's of 370 M parameters."""

Run = Callable[[Recurrences, StateLayer, StateStep], Tensor]


def delta(count: int, generator: torch.Generator) -> tuple[StateLayer, Run]:
    """Makes states of 16 heads of 128 x 128 for `count` tokens, as in Qwen3.5-0.8B."""
    keys, heads = (torch.randn(count, 16, 128, generator=generator) for _ in range(2))
    kept = 1 - torch.rand(count, 16, generator=generator) / 8
    normal = torch.nn.functional.normalize(keys, dim=-1)
    inputs = DeltaInputs(normal, normal, heads, kept, torch.rand(count, 16, generator=generator))
    layer = StateLayer(torch.zeros(9, 3, 1), torch.zeros(9, 16, 128, 128))
    return layer, lambda recurrences, states, step: recurrences.run_delta_rule(inputs, states, step)


def space(count: int, generator: torch.Generator) -> tuple[StateLayer, Run]:
    """Makes states of 48 heads of 128 x 64 for `count` tokens, with one group."""
    shared, values = torch.randn(count, 1, 128, generator=generator), torch.randn(count, 48, 64, generator=generator)
    kept = 1 - torch.rand(count, 48, generator=generator) / 8
    inputs = SpaceInputs(shared, shared, values, torch.rand(count, 48, generator=generator), kept)
    layer = StateLayer(torch.zeros(9, 3, 1), torch.zeros(9, 48, 128, 64))
    return layer, lambda recurrences, states, step: recurrences.scan_space(inputs, states, step)


def convolution(count: int, generator: torch.Generator) -> tuple[StateLayer, Run]:
    """Makes four taps of 6144 channels for `count` tokens, as in Qwen3.5-0.8B."""
    inputs, taps = torch.randn(count, 6144, generator=generator), torch.randn(4, 6144, generator=generator)
    layer = StateLayer(torch.zeros(9, 3, 6144), torch.zeros(9, 1, 1, 1))
    return layer, lambda recurrences, states, step: recurrences.convolve(inputs, taps, None, states, step)


LAYERS = {"delta rule": delta, "state space": space, "convolution": convolution}


def step_of(counts: tuple[int, ...]) -> StateStep:
    """Lays out a step that continues the states of as many texts."""
    ends = [sum(counts[: index + 1]) for index in range(len(counts))]
    spans = [number for end, count in zip(ends, counts, strict=True) for number in (end - count, count, 0, 0)]
    moves = array("q", [number for slot in range(len(counts)) for number in (slot, slot, 0, 8, 0, 8)])
    arrays = StepArrays(array("q", [0] * sum(counts)), array("q"), array("q", spans), array("q"), moves=moves)
    return StateStep.of(arrays, 8, 4, torch.device("cpu"))


def seconds(run: Callable[[], object], least: float = 0.05) -> float:
    """Times calls for at least so many seconds. Returns those of one."""
    started, count = time.perf_counter(), 0
    while (passed := time.perf_counter() - started) < least or not count:
        run()
        count += 1
    return passed / count


def measure_layers(threads: int, rounds: int) -> dict[str, list[Measured]]:
    """Returns microseconds a token of both ways, round by round."""
    ways: dict[str, Recurrences] = {BEFORE: TorchRecurrences(), AFTER: KernelRecurrences(KernelContext(threads))}
    found: dict[str, list[Measured]] = {}
    for name, make in LAYERS.items():
        for batch, counts in BATCHES.items():
            (layer, run), step = make(sum(counts), torch.Generator().manual_seed(0)), step_of(counts)
            found[f"{name}, {batch}"] = [
                {way: seconds(partial(run, each, layer, step)) / sum(counts) * 1e6 for way, each in ways.items()}
                for _ in range(rounds)
            ]
    return found


def load(folder: Path, way: str, precision: str, threads: int) -> TextEngine:
    config = EngineConfig.of(
        speculation="off", thread_count=threads, block_count=256, prefix_cache=False, packed_folder=None,
        precision=precision, max_running_count=8,
    )  # fmt: skip
    if way == AFTER:
        return load_text_engine(folder, config)
    with mock.patch.object(state_reader, "choose_recurrences", return_value=TorchRecurrences()):
        return load_text_engine(folder, config)


def measure_model(name: str, arguments: argparse.Namespace) -> list[dict[str, Measured]]:
    """Returns tokens per second of both ways, round by round."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        facts = {"vocab_size": 4096, "max_position_embeddings": 2048, "initializer_range": 0.02}
        make_family(Path(folder), name, num_hidden_layers=arguments.layers, **facts, **MODELS[name])
        engines = {way: load(Path(folder), way, arguments.precision, arguments.threads) for way in (BEFORE, AFTER)}
    for engine in engines.values():
        measure(engine)
    return [{way: measure(engine) for way, engine in engines.items()} for _ in range(arguments.rounds)]


def summary(rounds: list[Measured]) -> dict[str, float]:
    """Returns medians, and the median of the ratios."""
    medians = {way: statistics.median(each[way] for each in rounds) for way in (BEFORE, AFTER)}
    return medians | {"ratio": statistics.median(each[BEFORE] / each[AFTER] for each in rounds)}


def main() -> None:
    """Prints two tables, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--precision", default="int8")
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    arguments = parser.parse_args()
    # As an engine on the kernels has it.
    torch.set_num_threads(1)
    layers = {name: summary(found) for name, found in measure_layers(arguments.threads, arguments.rounds).items()}
    models: dict[str, dict[str, float]] = {}
    for name in arguments.models:
        rounds = measure_model(name, arguments)
        for case in rounds[0][BEFORE]:
            # Rates, so the other way around than times.
            flipped = [{BEFORE: each[AFTER][case], AFTER: each[BEFORE][case]} for each in rounds]
            found = summary(flipped)
            models[f"{name}, {case}"] = {BEFORE: found[AFTER], AFTER: found[BEFORE], "ratio": found["ratio"]}
    for title, rows in (("microseconds a token and layer", layers), ("tokens per second", models)):
        table = Table(title, BEFORE, AFTER, "times as fast", box=None, header_style="dim")
        for name, row in rows.items():
            table.add_row(name, f"{row[BEFORE]:.1f}", f"{row[AFTER]:.1f}", f"{row['ratio']:.2f}")
        console.print(table)
    facts = {"threads": arguments.threads, "cores": os.cpu_count(), "precision": arguments.precision}
    print_json(facts | {"model_layers": arguments.layers, "layers": layers, "models": models})


if __name__ == "__main__":
    main()
