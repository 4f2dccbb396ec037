"""Headrace against llama.cpp, OpenVINO GenAI and vLLM: int4 weights, the same workload, interleaved rounds.

    python -m tests.benchmarks.peers [--shapes tinyllama-1.1b …] [--rounds 5] [--peers llama.cpp openvino vllm]
                                     [--page docs/results/2026-12-01-peers.md]

A shape is a name, or the path of a config.json. With ".q4_k_m" after a name, with experts (gpt-oss-20b.4-layers,
qwen3-30b-a3b.6-layers), with states (lfm2-350m, lfm2-1.2b, qwen3.5-0.8b, qwen3.5-4b), or with the path of a GGUF file,
llama.cpp and Headrace run the same file instead. Peers are set up in `--folder` when they are first wanted; one that
cannot be set up is left out and named. Prints medians and ratios to the best peer, with the read bandwidth of the same
minutes; ends with one JSON line for each shape. `--page` also writes a page, anew after each shape. vLLM has int4
kernels for AVX-512 only: elsewhere it runs in bf16 and in fp32, under names that say so, and takes minutes to start.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import torch
from rich.table import Table
from tests.benchmarks.peers import llama_cpp
from tests.benchmarks.peers.delta_gguf import DELTA_SHAPES, write_delta
from tests.benchmarks.peers.environment import llama_cpp_tools, openvino_python, vllm_python
from tests.benchmarks.peers.expert_gguf import EXPERT_SHAPES, write_experts
from tests.benchmarks.peers.gguf_checkpoint import write_gguf, write_q4_k_m
from tests.benchmarks.peers.machine import this_machine
from tests.benchmarks.peers.probe import read_bandwidth
from tests.benchmarks.peers.report import US, Comparison, Report
from tests.benchmarks.peers.shapes import read_shape, write_awq_checkpoint, write_checkpoint
from tests.benchmarks.peers.state_gguf import STATE_SHAPES, write_states

from headrace.cli.output import console, print_json

BLOCKS = ".q4_k_m"
"""Ending of shapes whose GGUF files have the blocks of Q4_K_M."""
Measure = Callable[[], dict[str, float]]


def run_json(command: list[str], folder: Path | None = None) -> dict[str, float]:
    """The JSON of the last line that a command prints."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, cwd=folder)
    if done.returncode:
        raise RuntimeError(f"{command} failed:\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def find_programs(arguments: argparse.Namespace) -> tuple[dict[str, Path], dict[str, str]]:
    """Sets up the peers asked for. Returns the program of each, and why others are missing."""
    setups = {"llama.cpp": llama_cpp_tools, "openvino": openvino_python, "vllm": vllm_python}
    programs, unavailable = {}, {name: "not asked for" for name in setups if name not in arguments.peers}
    for name in arguments.peers:
        try:
            programs[name] = setups[name](arguments.folder)
        except (OSError, subprocess.SubprocessError) as error:
            unavailable[name] = f"it cannot be set up ({error})"
    return programs, unavailable


def make_engines(shape: str, programs: Mapping[str, Path], arguments: argparse.Namespace) -> Mapping[str, Measure]:
    """Returns the function that measures each engine. Writes the checkpoints first."""
    threads, tokens = str(arguments.threads), arguments.prompt_tokens
    name = shape.replace("/", "_")
    is_gguf = shape.endswith((".gguf", BLOCKS)) or shape in {**EXPERT_SHAPES, **STATE_SHAPES, **DELTA_SHAPES}
    gguf_file = Path(shape) if shape.endswith(".gguf") else arguments.folder / f"{name}.gguf"
    checkpoint = gguf_file if is_gguf else arguments.folder / name
    write_missing(shape, checkpoint, gguf_file)
    ours = [sys.executable, "-m", "tests.benchmarks.peers.headrace_engine", str(checkpoint), threads]
    engines: dict[str, Measure] = {US: lambda: run_json([*ours, str(arguments.folder / "packed"), tokens])}
    if "llama.cpp" in programs:
        tool = programs["llama.cpp"] / "llama-batched-bench"
        engines["llama.cpp"] = lambda: llama_cpp.measure(tool, gguf_file, arguments.threads, tokens)
    if is_gguf:
        return engines
    if "openvino" in programs:
        command = [str(programs["openvino"]), "openvino_engine.py", str(gguf_file), threads, tokens]
        engines["openvino"] = lambda: run_json(command, Path(__file__).parent)
    if "vllm" in programs:
        engines |= make_vllm(checkpoint, read_shape(shape), programs["vllm"], arguments)
    return engines


def write_missing(shape: str, checkpoint: Path, gguf_file: Path) -> None:
    """Writes the files of a shape that are not there yet."""
    if shape.endswith(BLOCKS) and not gguf_file.exists():
        write_q4_k_m(gguf_file, read_shape(shape.removesuffix(BLOCKS)))
    if shape in EXPERT_SHAPES and not gguf_file.exists():
        write_experts(gguf_file, EXPERT_SHAPES[shape])
    if shape in STATE_SHAPES and not gguf_file.exists():
        write_states(gguf_file, STATE_SHAPES[shape])
    if shape in DELTA_SHAPES and not gguf_file.exists():
        write_delta(gguf_file, DELTA_SHAPES[shape])
    if checkpoint == gguf_file:
        return
    if not (checkpoint / "config.json").exists():
        write_checkpoint(checkpoint, read_shape(shape))
    if not gguf_file.exists():
        write_gguf(gguf_file, read_shape(shape))


def make_vllm(
    checkpoint: Path, config: dict[str, object], program: Path, arguments: argparse.Namespace
) -> dict[str, Measure]:
    """vLLM in int4. Where it has no kernels for that: in bf16 and in fp32, each of which is faster at something."""
    has_int4 = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    source = checkpoint.with_name(f"{checkpoint.name}-awq") if has_int4 else checkpoint
    if not (source / "config.json").exists():
        write_awq_checkpoint(source, config)
    script = [str(program), "vllm_engine.py", str(source)]
    facts = [str(arguments.threads), str(arguments.folder / "vllm-cache"), arguments.prompt_tokens]

    def measure_in(dtype: str) -> Measure:
        return lambda: run_json([*script, dtype, *facts], Path(__file__).parent)

    if has_int4:
        return {"vllm": measure_in("bfloat16")}
    return {"vllm (bf16)": measure_in("bfloat16"), "vllm (fp32)": measure_in("float32")}


def compare(shape: str, engines: Mapping[str, Measure], arguments: argparse.Namespace) -> Comparison:
    """Measures all engines in turn, round by round. Each packs or compiles what it keeps before the first round."""
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in engines}
    bandwidths = []
    engines[US]()
    for round_index in range(arguments.rounds):
        for name, run in engines.items():
            bandwidths.append(read_bandwidth(arguments.threads))
            rows[name].append(run())
            console.print(f"[dim]{shape}, round {round_index + 1}: {name}", highlight=False)
    return Comparison(shape, rows, sorted(bandwidths))


def show(comparison: Comparison) -> None:
    """Prints medians as a table, and everything as a line of JSON."""
    low, high = comparison.bandwidths[0], comparison.bandwidths[-1]
    title = f"{comparison.shape}, int4, read bandwidth {low:.1f}–{high:.1f} GB/s"
    table = Table(box=None, header_style="dim", title=title)
    for column in ("", *comparison.rounds, "to the best peer"):
        table.add_column(column, justify="right")
    medians = {name: comparison.medians(name) for name in comparison.rounds}
    for task in medians[US]:
        ratio = comparison.ratio(task)
        cells = (f"{found[task]:.1f}" for found in medians.values())
        table.add_row(task, *cells, "" if ratio is None else f"{ratio:.2f}")
    console.print(table)
    print_json(asdict(comparison))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", default=["tinyllama-1.1b"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--prompt-tokens", default="0-12000", help="decodes whose prompts have so many tokens in all")
    parser.add_argument("--peers", nargs="*", default=["llama.cpp", "openvino"])
    parser.add_argument("--folder", type=Path, default=Path.home() / ".cache" / "headrace-peers")
    parser.add_argument("--page", type=Path, help="Markdown file to write")
    return parser.parse_args()


def main() -> None:
    """Sets up, measures, prints, and writes the page."""
    arguments = parse()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    programs, unavailable = find_programs(arguments)
    shown = {"--folder", str(arguments.folder), "--page", str(arguments.page)}
    words = [word for word in sys.argv[1:] if word not in shown]
    command = shlex.join(["python", "-m", "tests.benchmarks.peers", *words])
    comparisons: list[Comparison] = []
    for shape in arguments.shapes:
        comparisons.append(compare(shape, make_engines(shape, programs, arguments), arguments))
        show(comparisons[-1])
        if arguments.page is not None:
            date = datetime.now(UTC).strftime("%Y-%m-%d")
            report = Report(date, command, this_machine(), arguments.threads, unavailable, comparisons)
            arguments.page.write_text(report.page(), encoding="utf-8")


if __name__ == "__main__":
    main()
