"""Page about engines compared, in Markdown."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tests.benchmarks.peers.environment import LLAMA_PACKAGE, OPENVINO_PACKAGE, VLLM_PACKAGE
from tests.benchmarks.peers.machine import Machine
from tests.benchmarks.peers.workload import MEMORY, PREFILL, START, Decode

US = "headrace"
LESS_IS_BETTER = (START, MEMORY)
AIMS: Mapping[str, float] = {
    PREFILL: 1.3,
    Decode(1, 16).name: 1.2,
    Decode(4, 16).name: 1.5,
    Decode(16, 16).name: 2.0,
    Decode(1, 1500).name: 1.8,
    Decode(8, 1500).name: 1.2,
    START: 1.0,
    MEMORY: 1.0,
}
"""Ratio to the best peer that is aimed at: at least this, or at most where less is better."""
METHOD = (
    "Random weights in 4 bits (groups of 128 where they fit; GGUF Q4_0 for llama.cpp and OpenVINO), interleaved rounds, "
    "medians with the smallest and largest in brackets; tokens per second unless said otherwise."
)
Rounds = Mapping[str, Sequence[Mapping[str, float]]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rounds of one shape, by engine and task."""

    shape: str
    rounds: Rounds
    bandwidths: Sequence[float]
    """GB/s read before each measurement, ascending."""

    def medians(self, name: str) -> dict[str, float]:
        """Returns the median of each task of an engine."""
        found = self.rounds[name]
        return {task: median(each[task] for each in found) for task in found[0]}

    def ratio(self, task: str) -> float | None:
        """Returns our figure as a ratio to the best peer's; None without peers."""
        others = [self.medians(name)[task] for name in self.rounds if name != US]
        if not others:
            return None
        return self.medians(US)[task] / (min if task in LESS_IS_BETTER else max)(others)


@dataclass(frozen=True, slots=True)
class Report:
    """Comparisons made in one run."""

    date: str
    command: str
    machine: Machine
    thread_count: int
    unavailable: Mapping[str, str]
    """Peers that were not measured, and why."""
    comparisons: Sequence[Comparison]

    def page(self) -> str:
        """Writes the page."""
        return "\n\n".join([self._head(), *map(_section, self.comparisons)]) + "\n"

    def _head(self) -> str:
        machine = self.machine
        packages = ", ".join((LLAMA_PACKAGE, OPENVINO_PACKAGE, VLLM_PACKAGE))
        lines = [
            f"{self.date}, {machine.line}; {self.thread_count} threads each.",
            f"Not on this machine: {', '.join(machine.missing_sets) or 'nothing'}.",
            f"Our kernels that do not run here: {'; '.join(machine.unused_kernels) or 'none'}.",
            f"Peers: {packages}. {self._missing()}.",
            f"```\n{self.command}\n```",
            METHOD,
        ]
        return "\n\n".join(["# Headrace against other engines on a CPU", *lines])

    def _missing(self) -> str:
        reasons = (f"{name} was not available: {reason}" for name, reason in self.unavailable.items())
        return "; ".join(reasons) or "All were available"


def _section(comparison: Comparison) -> str:
    low, high = comparison.bandwidths[0], comparison.bandwidths[-1]
    names = list(comparison.rounds)
    count = len(comparison.rounds[US])
    head = f"{count} rounds; read bandwidth probed before each measurement: {low:.1f} to {high:.1f} GB/s."
    rows = [_row(comparison, task) for task in comparison.medians(US)]
    columns = ("", *names, "to the best peer", "aim", "")
    return "\n".join([f"## {comparison.shape}", "", head, "", *_table(columns, rows)])


def _row(comparison: Comparison, task: str) -> list[str]:
    cells = [_cell([each[task] for each in found]) for found in comparison.rounds.values()]
    ratio, aim = comparison.ratio(task), AIMS.get(task)
    if ratio is None or aim is None:
        return [task, *cells, "" if ratio is None else f"{ratio:.2f}", "", ""]
    less = task in LESS_IS_BETTER
    held = ratio <= aim if less else ratio >= aim
    return [task, *cells, f"{ratio:.2f}", f"{'≤' if less else '≥'} {aim:g}", "held" if held else "missed"]


def _cell(values: Sequence[float]) -> str:
    middle = f"{median(values):.1f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.1f}–{max(values):.1f})"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [" | ".join(row) for row in (columns, ["---", *["---:"] * (len(columns) - 1)], *rows)]
    return [f"| {line} |" for line in lines]
