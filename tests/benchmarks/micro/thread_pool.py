"""Time that it takes to have the kernels' threads do a job: the latency of a dispatch, in microseconds.

    python -m tests.benchmarks.micro.thread_pool [--threads 2] [--compiler g++]

How much longer a job takes than one of its tasks, of which there is one for each thread: given while the threads
still spin, when they have gone to sleep, and in between. A caller that is left alone with all tasks takes the time of
the others longer. A decode step of a model with 22 layers is about 200 jobs. Ends with one JSON line.
"""

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

from rich.table import Table

from headrace.cli.output import console, print_json
from headrace.engine.kernels import library

SOURCES = Path(library.__file__).parent / "src"
IDLE_MICROSECONDS = (0, 20, 1000)
"""Between jobs: threads spin for about 50, then sleep."""
TASK_MICROSECONDS = (10, 100)
REPEATS = 2000


def build(folder: Path, compiler: str) -> Path:
    """The program that measures, from the pool's own source."""
    program = folder / "thread_pool"
    sources = [str(Path(__file__).with_suffix(".cpp")), str(SOURCES / "pool.cpp")]
    command = [compiler, "-std=c++20", "-O3", "-pthread", f"-I{SOURCES}", *sources, "-o", str(program)]
    subprocess.run(command, check=True)
    return program


def main() -> None:
    """Builds, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--compiler", default=os.environ.get("CXX", "c++"))
    arguments = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        program = build(Path(name), arguments.compiler)
        for idle in IDLE_MICROSECONDS:
            row = found.setdefault(f"after {idle} us of rest", {})
            for work in TASK_MICROSECONDS:
                command = [str(program), str(arguments.threads), str(work), str(idle), str(REPEATS)]
                row[f"tasks of {work} us"] = float(subprocess.run(command, capture_output=True, check=True).stdout)
    table = Table(box=None, header_style="dim", title=f"microseconds of dispatch, {arguments.threads} threads")
    for title in ("", *(f"tasks of {work} us" for work in TASK_MICROSECONDS)):
        table.add_column(title, justify="right")
    for rest, row in found.items():
        table.add_row(rest, *(f"{value:.2f}" for value in row.values()))
    console.print(table)
    print_json({"threads": arguments.threads, "microseconds": found})


if __name__ == "__main__":
    main()
