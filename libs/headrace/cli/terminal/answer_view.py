"""Shows an answer in a terminal: wrapped at words while it comes, as Markdown when it is complete."""

from collections.abc import Iterable
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text

SPARE_ROWS = 2
"""Rows that stay free below the text, so that the terminal need not scroll while it is painted again."""


class AnswerView:
    """Context manager around one answer. Where the output is no terminal, prints the text as it comes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._is_live = console.is_terminal and not console.is_dumb_terminal
        self._live = Live(console=console, transient=True, auto_refresh=False)
        self._said = ""

    def __enter__(self) -> "AnswerView":
        if self._is_live:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self._is_live:
            self._console.print()
            return
        self._live.update(Text(""), refresh=True)
        self._live.stop()
        if self._said:
            # Importing it takes as long as the rest of the command's start, and answers that are piped do without.
            from rich.markdown import Markdown

            self._console.print(Markdown(self._said))

    def show(self, texts: Iterable[str]) -> str:
        """Shows a stream of texts and returns the whole."""
        for text in texts:
            self._said += text
            if self._is_live:
                self._live.update(self._tail(), refresh=True)
            else:
                self._console.print(text, end="", markup=False, soft_wrap=True)
        return self._said

    def _tail(self) -> Text:
        """Returns the last lines, as many as the screen has, wrapped at words."""
        lines = Text(self._said).wrap(self._console, self._console.width)
        return Text("\n").join(lines[-max(1, self._console.height - SPARE_ROWS) :])
