"""Measures llama.cpp by its own `llama-batched-bench`."""

import json
import resource
import subprocess
import time
from pathlib import Path

from tests.benchmarks.peers.workload import DECODES, PREFILL, PREFILL_TOKENS


def _bench(tool: Path, model: Path, threads: int, prompt: int, outputs: int, count: int) -> dict[str, float]:
    context = str((prompt + outputs) * count + 64)
    command = [str(tool), "-m", str(model), "-c", context, "-b", "2048", "-ub", "512", "-t", str(threads)]
    command += ["-tb", str(threads), "-npp", str(prompt), "-ntg", str(outputs), "-npl", str(count)]
    command += ["--output-format", "jsonl"]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=900).stdout
    return dict(json.loads(next(line for line in output.splitlines() if line.startswith("{"))))


def measure(tool: Path, model: Path, threads: int) -> dict[str, float]:
    """The rate of each task of the workload, and the largest memory."""
    started = time.monotonic()
    _bench(tool, model, threads, 1, 1, 1)
    found = {"seconds to load": time.monotonic() - started}
    found[PREFILL] = _bench(tool, model, threads, PREFILL_TOKENS, 1, 1)["speed_pp"]
    for task in DECODES:
        row = _bench(tool, model, threads, task.prompt_tokens, task.output_tokens, task.count)
        found[task.name] = row["speed_tg"]
    found["peak memory, MiB"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return found
