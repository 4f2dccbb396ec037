"""Runs the first minutes at a card: each step in a process of its own with a limit, one line of JSON per result.

    python -m tests.benchmarks.gpu.first_light [--out FOLDER] [--device cuda:0] [--only STEP ...] [--rehearse]

A step that crashes, hangs or finds something wrong stops no other. Writes FOLDER/first_light.jsonl as results come, and
a page FOLDER/first_light.md. Exits with 1 if anything was wrong. --rehearse runs the same steps on a CPU, in Triton's
interpreter, at tiny sizes. Runs from the source tree alone: PYTHONPATH=libs:services:. python3 -m ...
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import torch
from tests.benchmarks.gpu.first_light.light_page import write_page
from tests.benchmarks.gpu.first_light.steps import STEPS, Result, Step
from tests.benchmarks.gpu.first_light.trial import Trial

REHEARSAL = 10.0
"""Factor by which a step may take longer in the interpreter."""


def main() -> None:
    """Runs all steps, or within one of their processes that one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/first_light"), metavar="FOLDER")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--only", nargs="*", choices=[step.name for step in STEPS], metavar="STEP")
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument("--within", help=argparse.SUPPRESS)
    options = parser.parse_args()
    device = "cpu" if options.rehearse else options.device
    if options.within:
        speak(next(step for step in STEPS if step.name == options.within), Trial(torch.device(device)))
        return
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = [step for step in STEPS if not options.only or step.name in options.only]
    lines = run_steps(chosen, options.out / "first_light.jsonl", device, REHEARSAL if options.rehearse else 1.0)
    page = write_page(lines)
    (options.out / "first_light.md").write_text(page)
    print(page)
    sys.exit(any(line.get("ok") is False for line in lines))


def speak(step: Step, trial: Trial) -> None:
    """Runs one step in this process, and prints each result as it is known."""
    if trial.is_rehearsal:
        repair_interpreter()
    else:
        torch.cuda.set_device(trial.device)
    for result in step.run(trial):
        print(json.dumps({"ok": True} | result), flush=True)


def repair_interpreter() -> None:
    """Lets Triton's interpreter compute with bf16, which it takes for integers."""
    # A machine with a card may lack pytest, which both import.
    import pytest
    from tests.libs.engine.triton.interpreter import repair_bf16, repair_products

    patch = pytest.MonkeyPatch()
    repair_products(patch)
    repair_bf16(patch)


def run_steps(steps: list[Step], path: Path, device: str, patience: float) -> list[Result]:
    """Runs steps one after the other, each in a process. Returns their results, and one of each step as a whole."""
    lines: list[Result] = []
    with path.open("w") as file:
        for step in steps:
            for line in run_step(step, device, step.seconds * patience):
                lines.append({"step": step.name} | line)
                print(json.dumps(lines[-1]), file=file, flush=True)
                print(json.dumps(lines[-1])[:200], flush=True)
    return lines


def run_step(step: Step, device: str, limit: float) -> list[Result]:
    """Runs a step in a process, which ends at the limit in seconds. Its last result says how it ended."""
    command = [sys.executable, "-m", "tests.benchmarks.gpu.first_light", "--within", step.name, "--device", device]
    environment = dict(os.environ)
    if device == "cpu":
        command.append("--rehearse")
        environment["TRITON_INTERPRET"] = "1"
    started = time.monotonic()
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            output, errors = process.communicate(timeout=limit)
            end = "done" if process.returncode == 0 else f"exit status {process.returncode}"
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
            end = f"no end within {limit:.0f} s"
    found = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    whole: Result = {"ok": end == "done", "end": end, "seconds": round(time.monotonic() - started, 1)}
    return [*found, whole | ({} if end == "done" else {"errors": errors[-2000:]})]


if __name__ == "__main__":
    main()
