"""The number of rows from which another way is faster."""

from collections.abc import Iterable
from dataclasses import dataclass

from tests.benchmarks.gpu.contest import Figure


@dataclass(frozen=True, slots=True)
class Crossover:
    """Change of the fastest way of one product."""

    contest: str
    tiled_rows: int
    """Most measured rows at which the best of our tiles is faster. 0: at none."""
    other_rows: int | None
    """Fewest measured rows from which on the other is always faster. None: it never is."""


def find_crossovers(figures: Iterable[Figure], kind: str, own: str, other: str) -> list[Crossover]:
    """Compares the best contender whose name begins with `own` with `other`, for each contest of a kind."""
    times: dict[str, dict[int, tuple[float, float]]] = {}
    infinite = float("inf")
    for figure in figures:
        if figure.kind != kind or figure.refusal:
            continue
        best, others = times.setdefault(figure.contest, {}).get(figure.row_count, (infinite, infinite))
        if figure.contender.startswith(own):
            best = min(best, figure.seconds)
        elif figure.contender == other:
            others = figure.seconds
        times[figure.contest][figure.row_count] = best, others
    return [_crossover(contest, by_rows) for contest, by_rows in times.items()]


def _crossover(contest: str, by_rows: dict[int, tuple[float, float]]) -> Crossover:
    counts = sorted(by_rows)
    tiled = max((count for count in counts if by_rows[count][0] <= by_rows[count][1]), default=0)
    return Crossover(contest, tiled, next((count for count in counts if count > tiled), None))
