"""Runs the tests of kernels for GPUs on this machine's card, measures each kernel beside others, and writes a page.

    python -m tests.benchmarks.gpu [--rounds 30] [--write PATH] [--without-tests] [--shape tinyllama-1.1b]

Without a card that the kernels run on, it says in one line what is missing and exits with 1. Needs no network.
"""

import argparse
import datetime
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import torch
from tests.benchmarks.gpu.card import Card, choose_profile, find_missing, read_card
from tests.benchmarks.gpu.clock import Clock, EventClock
from tests.benchmarks.gpu.contest import compete, in_words
from tests.benchmarks.gpu.generation import Generation, Workload, measure_generation
from tests.benchmarks.gpu.program import CARD_SIZES, Sizes, list_contests
from tests.benchmarks.gpu.report import Report
from tests.benchmarks.peers.shapes import read_shape

from headrace.planning.device_profile import PROFILES, list_profiles

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "docs" / "results"
WORKLOAD = Workload((1, 8, 32), prompt_count=128, output_count=128)
TEST_SECONDS = 3600.0


def run_tests() -> tuple[str, bool]:
    """Runs the tests marked `gpu` in a process of its own. Returns the closing line, and whether all passed."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", "tests/libs/engine"]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"THOROUGH": "1"}, stdout=subprocess.PIPE, text=True, timeout=TEST_SECONDS
    )
    print(done.stdout, flush=True)
    closing = [line.strip() for line in done.stdout.splitlines() if " in " in line and "passed" in line + "failed"]
    return (closing[-1] if closing else f"pytest exited with {done.returncode}"), done.returncode == 0


def measure(
    options: argparse.Namespace, card: Card, sizes: Sizes, workload: Workload, clock: Clock, device: torch.device
) -> tuple[Report, bool]:
    """Measures everything. The flag says whether the tests passed."""
    profile = choose_profile(card, list_profiles(PROFILES))
    tests, passed = ("left out", True) if options.without_tests else run_tests()
    figures = []
    with torch.inference_mode():
        for contest in list_contests(sizes, device):
            figures += compete(contest, clock, options.rounds, profile)
            print(f"{contest.kind}: {contest.name}, {contest.row_count} rows", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        shape = read_shape(options.shape)
        try:
            generations = measure_generation(Path(folder) / "model", shape, workload, device, profile)
        except Exception as failure:  # noqa: BLE001
            # The figures of the kernels are kept, whatever a whole model fails of.
            traceback.print_exc()
            generations = [Generation(batch, 0.0, 0.0, 0.0, in_words(failure)) for batch in workload.batches]
    return Report(card, options.date, options.rounds, tests, figures, generations, profile), passed


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--write", type=Path, help="default: docs/results/DATE-gpu-CARD.md")
    parser.add_argument("--without-tests", action="store_true")
    parser.add_argument("--shape", default="tinyllama-1.1b", help="of benchmarks/peers/shapes.py, or a config.json")
    parser.add_argument("--date", default=datetime.datetime.now(datetime.UTC).date().isoformat())
    options = parser.parse_args()
    if missing := find_missing():
        sys.exit(f"make gpu: {missing}")
    report, passed = measure(options, read_card(), CARD_SIZES, WORKLOAD, EventClock(), torch.device("cuda"))
    path = options.write or RESULTS / f"{options.date}-gpu-{report.card.slug}.md"
    path.write_text(report.page())
    print(report.page())
    print(f"written to {path}")
    sys.exit(not (passed and report.is_sound))


if __name__ == "__main__":
    main()
