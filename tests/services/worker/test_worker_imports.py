"""Imports of a worker: traces, certificates and grammars cost those who use them."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process
THREADS = Path("/proc/self/task")
LATER = ("torch", "tokenizers", "llguidance", "gguf", "cryptography", "opentelemetry.sdk", "opentelemetry.exporter")
SCRIPT = "import sys, headrace.worker.app; print(*(name for name in sys.argv[1:] if name in sys.modules))"


def test_a_worker_imports_what_only_some_settings_need_when_they_ask_for_it() -> None:
    command = [sys.executable, "-c", SCRIPT, *LATER]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == []


@pytest.mark.skipif(
    platform.machine() != "x86_64" or not THREADS.exists(),
    reason="the system does not list threads there, or torch may want them; to run it: Linux on x86-64",
)
def test_numpy_starts_no_threads_unless_somebody_asks_for_them() -> None:
    script = f"import os, headrace.worker.app; print(len(os.listdir({str(THREADS)!r})))"
    counts = []
    for chosen in ({}, {"OPENBLAS_NUM_THREADS": "2"}):
        others = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=others | chosen)
        counts.append(int(done.stdout))
    # It starts no more than there are cores.
    assert counts == [1, min(2, len(os.sched_getaffinity(0)))]
