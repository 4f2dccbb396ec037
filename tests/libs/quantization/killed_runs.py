"""Quantizations of the bundled model that kill themselves, forked from a process which has imported torch.

    python -m tests.libs.quantization.killed_runs

It reads a method, the module that writes, the number of a file and a target per line, and answers once the process has
ended that was to write half of that file.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from headrace.demo_model import CHECKPOINT
from headrace.evaluation.text import calibration_text
from headrace.quantization.checkpoint_quantizer import quantize_checkpoint
from headrace.quantization.quantization_settings import QuantizationSettings

SEQUENCES = 1
END_SECONDS = 10.0


class KilledRuns:
    """The process that forks."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", __name__]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, target: Path, method: str, module: str, count: int) -> None:
        """Runs one to its end, with half of its `count`-th file written."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([method, module, count, str(target)]) + "\n")
        self._process.stdin.flush()
        assert int(self._process.stdout.readline()) == -signal.SIGKILL

    def close(self) -> None:
        self._process.communicate(timeout=END_SECONDS)


def run_and_die(method: str, module: str, count: int, target: str) -> None:
    """Quantizes until the `count`-th file is half written."""
    writer = importlib.import_module(f"headrace.quantization.{module}")
    write, written = writer.save_file, []

    def write_and_die(tensors: Any, path: Path, **settings: Any) -> None:
        write(tensors, path, **settings)
        written.append(path)
        if len(written) == count:
            os.truncate(path, os.path.getsize(path) // 2)
            os.kill(os.getpid(), signal.SIGKILL)

    writer.save_file = write_and_die  # type: ignore[attr-defined]
    settings = QuantizationSettings(method, sequence_count=SEQUENCES)  # type: ignore[arg-type]
    quantize_checkpoint(CHECKPOINT, Path(target), settings, calibration_text(), lambda *_: None)


def main() -> None:
    # As in the tests: sums over activations are rounded otherwise with more.
    torch.set_num_threads(1)
    while line := sys.stdin.readline():
        pid = os.fork()
        if not pid:
            run_and_die(*json.loads(line))
            os._exit(1)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
