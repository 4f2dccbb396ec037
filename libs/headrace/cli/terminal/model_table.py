"""Tables of models: of this machine, and of the catalogue."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from headrace.catalogue.catalogue import KnownModel
from headrace.errors import HeadraceError

WIDE = 160
"""Columns of a terminal that has room for all in one line."""
_MEANINGS = "size: what a pull takes, about. made for: a device with room for it (headrace plan says more). "
_NARROW_MEANINGS = "Below each name: its id on the hub. With --json or a wider terminal: drafts and fallbacks."
_WIDE_MEANINGS = (
    "draft: a small model that drafts tokens for it, if it was pulled too. fallback: a smaller model that can answer "
    "in its place. id: on the hub."
)


def size_text(byte_count: int | None) -> str:
    """Returns a size as people read it; empty if it is not known."""
    if not byte_count:
        return ""
    return f"{byte_count / 1e9:.1f} GB" if byte_count >= 1e9 else f"{byte_count / 1e6:.0f} MB"


def count_text(count: int | None) -> str:
    """Returns a number of parameters as people read it; empty if it is not known."""
    if not count:
        return ""
    return f"{count / 1e9:.1f}B" if count >= 1e9 else f"{count / 1e6:.0f}M"


def parameter_count(folder: Path) -> int | None:
    """Returns the number of parameters of a checkpoint; None where its config.json does not say."""
    try:
        # Imported here, because it takes a tenth of a second.
        from headrace.engine.checkpoints.layout.model_shape import model_shape
        from headrace.engine.checkpoints.model_config import read_model_config

        return int(model_shape(read_model_config(folder)).parameter_count)
    except (HeadraceError, ImportError, OSError, ValueError, AttributeError, KeyError):
        return None


def local_table(models: Iterable[Mapping[str, Any]]) -> Table:
    """Returns the models that are on this machine."""
    table = _table("model", "size", "params", "license", "from")
    for model in models:
        counted = count_text(model.get("parameter_count"))
        table.add_row(
            Text(str(model["name"]), overflow="fold"),
            size_text(model.get("bytes")),
            counted,
            str(model.get("license", "")),
            str(model["from"]),
        )
    return table


def catalogue_table(models: Sequence[KnownModel], here: Collection[str], width: int) -> Table | Text:
    """Returns the models that can be pulled by name. `here`: names of the pulled ones. In a narrow terminal its id
    is in a second line."""
    if width < WIDE:
        return Text("\n").join(_narrow_lines(models, here))
    table = _table("model", "size", "params", "license", "made for", "draft", "fallback", "here", "id")
    for known in models:
        facts = (size_text(known.download_bytes), count_text(known.parameter_count), known.license, known.device)
        is_here = "yes" if known.name in here else ""
        table.add_row(known.name, *facts, known.draft, known.fallback, is_here, known.source)
    return table


def legend_line(width: int) -> Text:
    """Returns what the columns mean."""
    return Text(_MEANINGS + (_NARROW_MEANINGS if width < WIDE else _WIDE_MEANINGS), "dim")


def _narrow_lines(models: Sequence[KnownModel], here: Collection[str]) -> Iterator[Text]:
    form = "{:<22} {:>8} {:>7}  {:<11} {:<10} {}"
    yield Text(form.format("model", "size", "params", "license", "made for", "here").rstrip(), "dim")
    for known in models:
        size, count = size_text(known.download_bytes), count_text(known.parameter_count)
        is_here = "yes" if known.name in here else ""
        yield Text(form.format(known.name, size, count, known.license, known.device, is_here).rstrip())
        yield Text(f"  {known.source}", "dim")


def _table(*titles: str) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    for title in titles:
        is_number = title in ("size", "params")
        table.add_column(title, justify="right" if is_number else "left", no_wrap=title != "model", overflow="fold")
    return table
