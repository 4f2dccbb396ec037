"""Cost of the engine per decode step besides the kernels: planning, laying out, sampling, bookkeeping.

    python -m tests.benchmarks.micro.step_loop [--batches 1 16 64] [--steps 300] [--profile]

Thread CPU time in microseconds, the median over the steps. The model is tiny, but its vocabulary is not, because
sampling reads all logits. The kernels, which compute the logits and find the largest, are timed apart and taken off.
Ends with one JSON line.
"""

import argparse
import cProfile
import pstats
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.table import Table
from tests.benchmarks.peers.shapes import LLAMA, write_checkpoint

from headrace.cli.output import console, print_json
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.kernels.context import KernelContext
from headrace.engine.loading.load_text_engine import load_text_engine

AIMS = {1: 100.0, 64: 400.0}
"""Microseconds of a step, by the sequences in it."""
TINY = LLAMA | {
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "max_position_embeddings": 2048,
}
PROMPT_TOKENS = 24
WARM_STEPS = 20


class KernelClock:
    """Thread CPU time that the kernels took, in seconds."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._originals = {name: getattr(KernelContext, name) for name in ("step", "likeliest")}

    def __enter__(self) -> "KernelClock":
        for name, original in self._originals.items():
            setattr(KernelContext, name, self._timed(original))
        return self

    def __exit__(self, *_error: object) -> None:
        for name, original in self._originals.items():
            setattr(KernelContext, name, original)

    def _timed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            started = time.thread_time()
            result = original(*arguments)
            self.seconds += time.thread_time() - started
            return result

        return call


def start(engine: TextEngine, batch: int, steps: int) -> None:
    """Adds requests and steps until all of them decode."""
    for index in range(batch):
        prompt = tuple(3 + (index * 31 + position * 7) % 1000 for position in range(PROMPT_TOKENS))
        sampling = SamplingParams(max_tokens=steps + 2 * WARM_STEPS + batch, temperature=0, ignore_eos=True)
        engine.add(EngineRequest(str(index), prompt, sampling))
    while engine.stats().waiting_count:
        engine.step()
    for _ in range(WARM_STEPS):
        engine.step()


def measure(folder: Path, batch: int, steps: int, profiler: cProfile.Profile | None) -> float:
    """Microseconds per step without the kernels."""
    engine = load_text_engine(folder, EngineConfig(thread_count=1, block_count=4096, speculation="off"))
    start(engine, batch, steps)
    found = []
    with KernelClock() as kernels:
        for _ in range(steps):
            inside, started = kernels.seconds, time.thread_time()
            if profiler is None:
                engine.step()
            else:
                profiler.runcall(engine.step)
            found.append(time.thread_time() - started - (kernels.seconds - inside))
    engine.close()
    return statistics.median(found) * 1e6


def main() -> None:
    """Measures each batch and prints a table; with --profile also where the largest one spends its time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    profiler = cProfile.Profile() if arguments.profile else None
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        write_checkpoint(Path(name), TINY | {"vocab_size": arguments.vocabulary})
        found = {batch: measure(Path(name), batch, arguments.steps, profiler) for batch in arguments.batches}
    table = Table(box=None, header_style="dim", title="microseconds of thread CPU time per step, kernels not counted")
    for title in ("batch", "measured", "aim"):
        table.add_column(title, justify="right")
    for batch, microseconds in found.items():
        table.add_row(str(batch), f"{microseconds:.0f}", f"{AIMS[batch]:.0f}" if batch in AIMS else "")
    console.print(table)
    if profiler is not None:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(25)
    print_json({"vocabulary": arguments.vocabulary, "microseconds_per_step": found, "aims": AIMS})


if __name__ == "__main__":
    main()
