"""Output of commands: tables for people, JSON for scripts, errors for both."""

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

from rich.console import Console
from rich.markup import escape

console = Console(highlight=False)
error_console = Console(stderr=True, highlight=False)


def print_json(content: Any) -> None:
    """Prints a JSON object on one line of stdout."""
    sys.stdout.write(json.dumps(content, ensure_ascii=False) + "\n")
    sys.stdout.flush()


@contextlib.contextmanager
def outliving_readers() -> Iterator[None]:
    """Opens a block that prints. A reader that leaves, or a terminal that is closed, does not end the program: what it
    prints from then on goes nowhere."""
    try:
        yield
    except OSError:
        # The rest of the buffer goes nowhere too; otherwise the interpreter complains at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def warn(message: str) -> None:
    """Prints a shortcoming, and its remedy."""
    _print_error(f"[bold yellow]warning:[/] {escape(message)}")


def fail(message: str, as_json: bool = False, code: int = 1) -> NoReturn:
    """Prints what failed, why, and what to do, and exits."""
    if as_json:
        print_json({"event": "error", "message": message})
    _print_error(f"[bold red]error:[/] {escape(message)}")
    raise SystemExit(code)


def _print_error(marked: str) -> None:
    """Prints an error. A terminal wraps it between words; a file or pipe gets one line."""
    error_console.print(marked, soft_wrap=not error_console.is_terminal)
