"""A progress bar on stderr for each kind of work that reports its completed fraction."""

from typing import Self

from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

from headrace.cli.output import error_console


class ShareProgress:
    """Context manager that removes its bars at the end."""

    def __init__(self) -> None:
        columns = (TextColumn("[dim]{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=error_console, transient=True)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def report(self, work: str, share: float) -> None:
        if work not in self._tasks:
            self._tasks[work] = self._progress.add_task(work, total=1.0)
        self._progress.update(self._tasks[work], completed=share)
