"""Output of commands: tables for people, JSON for scripts, errors for both."""

import json
import sys
from typing import Any, NoReturn

from rich.console import Console
from rich.markup import escape

console = Console(highlight=False)
error_console = Console(stderr=True, highlight=False)


def print_json(content: Any) -> None:
    """Prints a JSON object on one line of stdout."""
    sys.stdout.write(json.dumps(content, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def warn(message: str) -> None:
    """Prints a shortcoming, and its remedy."""
    error_console.print(f"[bold yellow]warning:[/] {escape(message)}", soft_wrap=True)


def fail(message: str, as_json: bool = False, code: int = 1) -> NoReturn:
    """Prints what failed, why, and what to do, and exits."""
    if as_json:
        print_json({"event": "error", "message": message})
    error_console.print(f"[bold red]error:[/] {escape(message)}", soft_wrap=True)
    raise SystemExit(code)
