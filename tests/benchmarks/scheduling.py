"""Time of one decision of the scheduler, against the number of workers and of requests that wait.

    make bench-scheduling            or: python -m tests.benchmarks.scheduling [--json]

Every worker is full, and requests of 100 tenants and three classes wait. Then workers report room for one request each,
in random order; each report is answered by one dispatch, which is accepted, and by a report without room. Timed is all
of that: three events and the decision. For each size the median of several rounds, interleaved.
"""

import argparse
import os
import platform as machine
import random
import statistics
import time
from datetime import UTC, datetime
from typing import Any

from rich.table import Table

from headrace.cli.output import console, print_json
from headrace.kv.held_prefix import HeldPrefix
from headrace.scheduler.core import events
from headrace.scheduler.core.core import SchedulingCore
from headrace.scheduler.core.decisions import Dispatch
from headrace.scheduler.core.fleet.worker import WorkerReport
from headrace.scheduler.core.policy import Policy
from headrace.scheduler.core.queueing.ticket import Ticket
from headrace.scheduler.core.queueing.urgency import Urgency

WORKERS = (10, 30, 100, 300, 1000)
WAITING = (1_000, 100_000)
DECISIONS = 500
ROUNDS = 3
MODEL = "m"
CAPACITY = 64
CLASSES = (Urgency.INTERACTIVE, Urgency.DEFAULT, Urgency.BATCH)


class Crowd:
    """A core with many workers and many who wait."""

    def __init__(self, worker_count: int, waiting_count: int) -> None:
        self._core = SchedulingCore(Policy(max_waiting_count=10**7, max_waiting_token_count=10**10))
        self._versions = [1] * worker_count
        self._chance = random.Random(1)
        for number in range(worker_count):
            self._report(number, 0)
        for number in range(waiting_count):
            self._core.handle(events.Submitted(self._ticket(number)), 0.001)

    def decide(self, count: int) -> list[float]:
        """Seconds of processor time of each of `count` decisions."""
        taken: list[float] = []
        for _ in range(count):
            number = self._chance.randrange(len(self._versions))
            started = time.thread_time()
            for decision in self._report(number, 1):
                if isinstance(decision, Dispatch):
                    self._report(number, 0)
                    for member in decision.members:
                        self._core.handle(events.Accepted(member.ticket, decision.worker_id), 0.01)
            taken.append(time.thread_time() - started)
        return taken

    def _report(self, number: int, credit: int) -> list[Any]:
        self._versions[number] += 1
        report = WorkerReport(
            f"w{number}", 1, self._versions[number], MODEL, credit_count=credit, open_count=CAPACITY - credit
        )
        return self._core.handle(events.WorkerReported(report, answers=True), 0.01)

    def _ticket(self, number: int) -> Ticket:
        held = {f"w{self._chance.randrange(len(self._versions))}": HeldPrefix(3) for _ in range(4)}
        return Ticket(f"r{number}", 1, MODEL, f"t{number % 100}", 0.0, 1000.0, 100, 100, CLASSES[number % 3], held=held)


def measure() -> list[dict[str, Any]]:
    """One row per size."""
    crowds = {(workers, waiting): Crowd(workers, waiting) for waiting in WAITING for workers in WORKERS}
    taken: dict[tuple[int, int], list[float]] = {size: [] for size in crowds}
    for _ in range(ROUNDS):
        for size, crowd in crowds.items():
            # No more than can be placed: the smallest queue must last for all rounds.
            taken[size] += crowd.decide(min(DECISIONS, size[1] // (2 * ROUNDS)))
    return [
        {
            "waiting": waiting,
            "workers": workers,
            "median_us": round(statistics.median(times) * 1e6, 1),
            "p99_us": round(sorted(times)[int(0.99 * len(times))] * 1e6, 1),
        }
        for (workers, waiting), times in taken.items()
    ]


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = measure()
    if arguments.json:
        print_json({"rows": rows})
        return
    table = Table(title="One decision of the scheduler: processor time")
    for title in ("waiting", "workers", "median, us", "p99, us"):
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    console.print(table)
    console.print(f"{machine.processor() or machine.machine()}, {os.cpu_count()} cores, {datetime.now(UTC):%Y-%m-%d}")


if __name__ == "__main__":
    main()
