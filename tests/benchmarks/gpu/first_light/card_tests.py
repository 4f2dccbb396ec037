"""Tests that are marked `gpu`, on the card."""

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from tests.benchmarks.gpu.first_light.trial import Trial

PROCESSES = 6
SECONDS_OF_A_TEST = 90


def run_card_tests(trial: Trial) -> Iterator[dict[str, Any]]:
    """Runs the tests of the kernels, without those that are `thorough`. One line for each that fails."""
    if trial.is_rehearsal:
        yield {"refusal": "the suite runs these tests in the interpreter"}
        return
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-n", str(PROCESSES), "-p", "no:cacheprovider"]
    # Another torch than the one that is pinned warns of what this one does not.
    command += ["-o", "filterwarnings=default", "--timeout", str(SECONDS_OF_A_TEST), "tests/libs/engine/triton"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    closing = ""
    for line in process.stdout:
        if found := re.match(r"(FAILED|ERROR) (\S+)(.*)", line):
            yield {"test": found[2], "reason": found[3][:400], "ok": False}
        elif re.search(r"\d (passed|failed|error|skipped|deselected)", line):
            closing = line.strip()
        elif line.startswith("E  "):
            yield {"says": line[2:300].strip()}
    yield {"tests": closing or "pytest said nothing", "ok": process.wait() == 0}
