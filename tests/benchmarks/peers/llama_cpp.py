"""Measures llama.cpp by its own `llama-batched-bench`."""

import json
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tests.benchmarks.peers.workload import MEMORY, PREFILL, PREFILL_TOKENS, START, decodes, peak_memory


def _bench(tool: Path, model: Path, threads: int, prompt: int, outputs: int, count: int) -> dict[str, float]:
    """Figures that llama.cpp reports of itself, and the largest memory that it had."""
    context = str((prompt + outputs) * count + 64)
    command = [str(tool), "-m", str(model), "-c", context, "-b", "2048", "-ub", "512", "-t", str(threads)]
    command += ["-tb", str(threads), "-npp", str(prompt), "-ntg", str(outputs), "-npl", str(count)]
    command += ["--output-format", "jsonl"]
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL)
        memory = 0.0
        while process.poll() is None:
            with suppress(OSError, StopIteration):
                memory = max(memory, peak_memory(process.pid))
            time.sleep(0.02)
        output.seek(0)
        lines = [line for line in output if line.startswith("{")]
    if process.returncode or not lines:
        raise RuntimeError(f"{command} failed with {process.returncode}")
    return dict(json.loads(lines[0])) | {"peak_mib": memory}


def measure(tool: Path, model: Path, threads: int, prompt_tokens: str) -> dict[str, float]:
    """The rate of each task of the workload, and the memory of one short request."""
    started = time.monotonic()
    small = _bench(tool, model, threads, 16, 2, 1)
    found = {START: time.monotonic() - started}
    found[PREFILL] = _bench(tool, model, threads, PREFILL_TOKENS, 1, 1)["speed_pp"]
    for task in decodes(prompt_tokens):
        row = _bench(tool, model, threads, task.prompt_tokens, task.output_tokens, task.count)
        found[task.name] = row["speed_tg"]
    found[MEMORY] = small["peak_mib"]
    return found
