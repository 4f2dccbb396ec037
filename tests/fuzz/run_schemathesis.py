"""Runs schemathesis over the description of a running platform."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.harness.running_platform import RunningPlatform

FOLDER = Path(__file__).parent
SPARE_SECONDS = 60.0
_FAILURE = re.compile(r"^- (?:ST\d+ )?(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Findings:
    """Report of a run."""

    output: str
    problems: list[str]


def run_schemathesis(platform: RunningPlatform, seconds: int, seed: int | None = None) -> Findings:
    """Runs all checks for about that time. Problems are failed checks, and errors in the gateway's log."""
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(FOLDER / "schemathesis.toml")]
    command += ["run", f"{platform.http}/openapi.json", "--checks", "all", "--workers", "2"]
    command += ["--max-time", str(seconds), "--no-color", *(["--seed", str(seed)] if seed is not None else [])]
    environment = os.environ | {"SCHEMATHESIS_HOOKS": "tests.fuzz.hooks"}
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=seconds + SPARE_SECONDS, check=False
    )
    failures = done.stdout.partition("= FAILURES =")[2].partition("= SUMMARY =")[0]
    problems = [problem for problem in _FAILURE.findall(failures) if not problem.startswith(("POST", "GET", "DELETE"))]
    problems += [line for line in platform.log("gateway").splitlines() if "unexpected failure" in line]
    if "Test cases:" not in done.stdout:
        problems.append(f"nothing was tried: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    return Findings(done.stdout, problems)
