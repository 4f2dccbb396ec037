"""Command line of a benchmark of the grown model whose result is a page."""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.benchmarks.grown_model import SHAPES

ROUNDS = 5
SHAPE = "300m"


def write_page(
    name: str, described: str | None, measure: Callable[[int, Path, str], Any], as_markdown: Callable[[Any, str], str]
) -> None:
    """Reads the flags of the benchmark `name`, measures for so many rounds in a folder of its own, and prints the page.
    Writes it too where the flags say so."""
    parser = argparse.ArgumentParser(description=described)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--shape", choices=SHAPES, default=SHAPE)
    parser.add_argument("--write", type=Path)
    chosen: Any = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(chosen.rounds, Path(folder), chosen.shape)
    page = as_markdown(figures, f"python -m tests.benchmarks.{name} --rounds {chosen.rounds} --shape {chosen.shape}")
    print(page)
    if chosen.write:
        chosen.write.write_text(page)
