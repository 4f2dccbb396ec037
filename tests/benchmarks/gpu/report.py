"""Page about one card, in Markdown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.benchmarks.gpu.card import Card
from tests.benchmarks.gpu.contest import OURS, Figure
from tests.benchmarks.gpu.crossover import Crossover, find_crossovers
from tests.benchmarks.gpu.generation import Generation
from tests.benchmarks.gpu.product_contests import DEQUANTIZED
from tests.benchmarks.gpu.product_contests import KIND as PRODUCTS

from headrace.engine.triton.kernel_registry import MAX_TILED_ROWS
from headrace.planning.device_profile import DeviceProfile

GIB = 1 << 30
WRONG = 0.05
"""Error from which a figure is that of a wrong result: inputs and weights in bf16 stay far below."""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was found out about a card."""

    card: Card
    date: str
    round_count: int
    tests: str
    """Closing line of the tests, or why they were left out."""
    figures: Sequence[Figure]
    generations: Sequence[Generation]
    profile: DeviceProfile | None

    def page(self) -> str:
        """Writes the page."""
        kinds = dict.fromkeys(figure.kind for figure in self.figures)
        parts = [self._head(), *(self._kind(kind) for kind in kinds), self._crossovers(), self._generation()]
        return "\n\n".join(part for part in parts if part) + "\n"

    @property
    def is_sound(self) -> bool:
        """Whether all kernels of Headrace, and the whole model, computed what was expected."""
        own = [figure for figure in self.figures if figure.contender.startswith(OURS)]
        return not any(figure.refusal or _is_wrong(figure) for figure in own) and all(
            each.ours for each in self.generations
        )

    def _head(self) -> str:
        card = self.card
        versions = ", ".join(f"{name} {version}" for name, version in card.versions.items())
        capability, memory = f"sm_{card.capability[0]}{card.capability[1]}", f"{card.memory_bytes / GIB:.1f} GiB"
        facts = f"{self.date}, {card.name} ({capability}, {memory}); {versions}. Command: `make gpu`."
        method = (
            f"Times are medians of {self.round_count} interleaved rounds between CUDA events, caches flushed before "
            "each; errors are shares of the largest number expected, in fp32."
        )
        return "\n\n".join(
            [f"# Kernels on {card.name}", facts, f"Tests on the card: {self.tests}.", method, self._basis()]
        )

    def _basis(self) -> str:
        if self.profile is None:
            return "No device profile fits this card, so nothing is predicted: `deploy/profiles` has others."
        return f"Predictions: the roofline of `deploy/profiles/{self.profile.name}.toml` with the shares assumed there."

    def _kind(self, kind: str) -> str:
        rows = [figure for figure in self.figures if figure.kind == kind]
        return "\n".join([f"## {kind}", "", *_table(FIGURE_COLUMNS, map(self._row, rows))])

    def _row(self, figure: Figure) -> list[str]:
        begin = [figure.contest, str(figure.row_count), figure.contender]
        if figure.refusal:
            return [*begin, "–", "–", "–", "–", "–", f"not measured: {figure.refusal}"]
        remark = "**wrong result**" if _is_wrong(figure) else ""
        return [
            *begin,
            f"{figure.seconds * 1e6:.1f}",
            f"{figure.fastest * 1e6:.1f} to {figure.slowest * 1e6:.1f}",
            f"{figure.moved_bytes / figure.seconds / 1e9:.0f}",
            f"{figure.seconds / figure.predicted:.2f} x" if figure.predicted else "–",
            f"{figure.error:.1e}",
            remark,
        ]

    def _crossovers(self) -> str:
        found = find_crossovers(self.figures, PRODUCTS, f"{OURS} ", DEQUANTIZED)
        if not found:
            return ""
        kept = MAX_TILED_ROWS.get(self.card.capability)
        rows = [[each.contest, str(each.tiled_rows or "none"), str(each.other_rows or "none")] for each in found]
        now = "no limit" if kept is None else f"{kept} rows"
        return "\n".join(
            [
                "## From tiles to cuBLAS",
                "",
                *_table(("weight", "most rows at which tiles are faster", "rows from which cuBLAS is"), rows),
                "",
                f"`MAX_TILED_ROWS` of this card in `kernel_registry.py`: {now}. By these figures: {_advice(found)}.",
            ]
        )

    def _generation(self) -> str:
        if not self.generations:
            return ""
        rows = [
            [
                str(each.batch),
                f"{each.ours:.0f}" if each.ours else "–",
                f"{each.theirs:.0f}" if each.theirs else each.refusal or "–",
                f"{each.predicted:.0f}" if each.predicted else "–",
                f"{each.ours / each.predicted:.0%}" if each.predicted else "–",
            ]
            for each in self.generations
        ]
        columns = ("requests at once", "ours, 4 bits", "transformers, bf16", "predicted", "of that")
        return "\n".join(["## Whole model, output tokens per second", "", *_table(columns, rows)])


FIGURE_COLUMNS = ("size", "rows", "way", "µs", "fastest to slowest", "GB/s", "of predicted time", "error", "")


def _is_wrong(figure: Figure) -> bool:
    return not figure.error <= WRONG


def _advice(found: Sequence[Crossover]) -> str:
    """Says up to how many rows tiles should be taken: where they win for the most rows, of all weights the fewest."""
    if all(each.other_rows is None for each in found):
        return "tiles at any number of rows"
    return str(min(each.tiled_rows for each in found if each.other_rows is not None))


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [columns, ["---"] * len(columns), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
