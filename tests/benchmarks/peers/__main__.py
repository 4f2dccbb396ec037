"""Headrace against llama.cpp, OpenVINO GenAI and vLLM: one shape, int4 weights, the same workload, interleaved rounds.

    python -m tests.benchmarks.peers [--shape tinyllama-1.1b] [--rounds 5] [--peers llama.cpp openvino vllm]

`--shape` takes a name or the path of a config.json. `--gguf q4_k_m`, or the path of a file, has llama.cpp and Headrace
run the same GGUF file. Peers are set up in `--folder` when they are first wanted. Prints
medians and ratios to the best peer, with the read bandwidth of the same minutes; ends with one JSON line. vLLM has int4
kernels for AVX-512 only: elsewhere it runs in bf16 and in fp32, under names that say so, and takes minutes to start.
"""

import argparse
import json
import os
import platform as machine
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from rich.table import Table
from tests.benchmarks.peers import llama_cpp
from tests.benchmarks.peers.environment import llama_cpp_tools, openvino_python, vllm_python
from tests.benchmarks.peers.gguf_checkpoint import write_gguf, write_q4_k_m
from tests.benchmarks.peers.probe import read_bandwidth
from tests.benchmarks.peers.shapes import read_shape, write_awq_checkpoint, write_checkpoint
from tests.benchmarks.peers.workload import MEMORY, START

from headrace.cli.output import console, print_json

Measure = Callable[[], dict[str, float]]
LESS_IS_BETTER = (START, MEMORY)
US = "headrace"


def run_json(command: list[str], folder: Path | None = None) -> dict[str, float]:
    """The JSON of the last line that a command prints."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, cwd=folder)
    if done.returncode:
        raise RuntimeError(f"{command} failed:\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def make_peers(arguments: argparse.Namespace) -> Mapping[str, Measure]:
    """Returns the function that measures each engine. Writes the checkpoints first."""
    config, folder = read_shape(arguments.shape), arguments.folder
    name = arguments.shape.replace("/", "_")
    checkpoint, gguf_file = folder / name, folder / f"{name}.gguf"
    threads, tokens = str(arguments.threads), arguments.prompt_tokens
    if arguments.gguf:
        checkpoint = gguf_file = find_gguf(arguments)
    elif not (checkpoint / "config.json").exists():
        write_checkpoint(checkpoint, config)
    if not gguf_file.exists():
        write_gguf(gguf_file, config)
    ours = [sys.executable, "-m", "tests.benchmarks.peers.headrace_engine", str(checkpoint), threads]
    peers: dict[str, Measure] = {US: lambda: run_json([*ours, str(folder / "packed"), tokens])}
    if "llama.cpp" in arguments.peers:
        tool = llama_cpp_tools(folder) / "llama-batched-bench"
        peers["llama.cpp"] = lambda: llama_cpp.measure(tool, gguf_file, arguments.threads, tokens)
    if "openvino" in arguments.peers:
        command = [str(openvino_python(folder)), "openvino_engine.py", str(gguf_file), threads, tokens]
        peers["openvino"] = lambda: run_json(command, Path(__file__).parent)
    if "vllm" in arguments.peers:
        peers |= make_vllm(checkpoint, arguments)
    return peers


def find_gguf(arguments: argparse.Namespace) -> Path:
    """The file that both run. Writes one of the shape unless a path is given."""
    if arguments.gguf != "q4_k_m":
        return Path(arguments.gguf)
    path: Path = arguments.folder / f"{arguments.shape.replace('/', '_')}-q4_k_m.gguf"
    if not path.exists():
        write_q4_k_m(path, read_shape(arguments.shape))
    return path


def make_vllm(checkpoint: Path, arguments: argparse.Namespace) -> dict[str, Measure]:
    """vLLM in int4. Where it has no kernels for that: in bf16 and in fp32, each of which is faster at something."""
    has_int4 = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    source = checkpoint.with_name(f"{checkpoint.name}-awq") if has_int4 else checkpoint
    if not (source / "config.json").exists():
        write_awq_checkpoint(source, read_shape(arguments.shape))
    script = [str(vllm_python(arguments.folder)), "vllm_engine.py", str(source)]
    facts = [str(arguments.threads), str(arguments.folder / "vllm-cache"), arguments.prompt_tokens]

    def measure_in(dtype: str) -> Measure:
        return lambda: run_json([*script, dtype, *facts], Path(__file__).parent)

    if has_int4:
        return {"vllm": measure_in("bfloat16")}
    return {"vllm (bf16)": measure_in("bfloat16"), "vllm (fp32)": measure_in("float32")}


def measure(peers: Mapping[str, Measure], arguments: argparse.Namespace) -> dict[str, Any]:
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in peers}
    bandwidths = []
    for round_index in range(arguments.rounds):
        for name, run in peers.items():
            bandwidths.append(read_bandwidth(arguments.threads))
            rows[name].append(run())
            console.print(f"[dim]round {round_index + 1}: {name}", highlight=False)
    medians = {
        name: {task: round(statistics.median(row[task] for row in found), 2) for task in found[0]}
        for name, found in rows.items()
    }
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{machine.machine()}, {os.cpu_count()} cores",
        "shape": arguments.shape,
        "weights": arguments.gguf or "int4",
        "threads": arguments.threads,
        "rounds": arguments.rounds,
        "read_bandwidth_gb_per_second": [round(value, 1) for value in sorted(bandwidths)],
        "medians": medians,
        "all": rows,
    }


def show(result: dict[str, Any]) -> None:
    medians = result["medians"]
    others = [name for name in medians if name != US]
    bandwidths = result["read_bandwidth_gb_per_second"]
    facts = f"{result['shape']}, {result['weights']}, {result['threads']} threads"
    title = f"{facts}, read bandwidth {bandwidths[0]}–{bandwidths[-1]} GB/s"
    table = Table(box=None, header_style="dim", title=title)
    for column in ("", *medians, "to the best peer"):
        table.add_column(column, justify="right")
    for task, value in medians[US].items():
        best = (min if task in LESS_IS_BETTER else max)([medians[name][task] for name in others], default=value)
        cells = (f"{medians[name][task]:.1f}" for name in medians)
        table.add_row(task, *cells, f"{value / best:.2f}")
    console.print(table)


def main() -> None:
    """Sets up, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="tinyllama-1.1b")
    parser.add_argument("--gguf", help="q4_k_m, or a file, that llama.cpp and Headrace both run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--prompt-tokens", default="0-12000", help="decodes whose prompts have so many tokens in all")
    parser.add_argument("--peers", nargs="*", default=["llama.cpp", "openvino"])
    parser.add_argument("--folder", type=Path, default=Path.home() / ".cache" / "headrace-peers")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    result = measure(make_peers(arguments), arguments)
    show(result)
    print_json(result)


if __name__ == "__main__":
    main()
