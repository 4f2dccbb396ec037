"""Help pages without what only the parser knows."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from attrs import evolve
from cyclopts.help import DefaultFormatter

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

SILENT_DEFAULTS = frozenset({'""', "False", "None", "{}", "()", "[]"})
"""Defaults that say no more than the text does."""


class PlainHelp(DefaultFormatter):
    """Writes MODEL for a positional argument, where the parser would take --model too, and no default that is empty."""

    def __call__(self, console: "Console", options: "ConsoleOptions", panel: "HelpPanel") -> None:
        super().__call__(console, options, evolve(panel, entries=list(plain_entries(panel.entries))))


def plain_entries(entries: "Iterable[HelpEntry]") -> "Iterable[HelpEntry]":
    """Yields entries of a help page as people type them."""
    for entry in entries:
        names = () if entry.positional_label else entry.positive_names
        default = None if entry.default in SILENT_DEFAULTS else entry.default
        yield evolve(entry, positive_names=names, default=default)
