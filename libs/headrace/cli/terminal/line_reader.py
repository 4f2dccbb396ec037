"""Lines that a person types: edited, remembered, completed, and several at once."""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from headrace.storage.private_files import close_to_others

try:
    import readline as _found
except ImportError:  # Python may be built without it: then lines are as the terminal itself edits them.
    readline: ModuleType | None = None
else:
    readline = _found

MARK = '"""'
"""Begins and ends a text of several lines."""
MAX_KEPT_LINES = 1000
PROMPT, FURTHER_PROMPT = "> ", "… "


def usual_history() -> Path:
    """Returns the file of lines from earlier sessions (XDG Base Directory Specification)."""
    folder = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(folder) / "headrace" / "chat_history"


class LineReader:
    """Reads what a person types at a terminal."""

    def __init__(self, words: Sequence[str], history: Path) -> None:
        """`words`: what the tab key completes at the beginning of a line. `history`: file of earlier lines."""
        self._words = sorted(words)
        self._history = history

    def __enter__(self) -> "LineReader":
        if readline is not None:
            readline.set_completer(self._completion)
            readline.set_completer_delims(" \t\n")
            is_libedit = "libedit" in (readline.__doc__ or "")
            readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
            readline.set_history_length(MAX_KEPT_LINES)
            with contextlib.suppress(OSError):
                readline.read_history_file(self._history)
        return self

    def __exit__(self, *_: object) -> None:
        """Keeps the lines for the next session. Without a place for them, they are lost, and nothing else is."""
        if readline is None:
            return
        readline.set_completer(None)
        with contextlib.suppress(OSError):
            self._history.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._history.touch(mode=0o600)
            close_to_others(self._history)
            readline.write_history_file(self._history)

    def read(self) -> str:
        """Returns the next text. A line that ends in a backslash continues on the next; one that begins with three
        quotation marks, until three more. Raises EOFError and KeyboardInterrupt."""
        line = input(_shown(PROMPT)).strip()
        if line.startswith(MARK):
            return _until_mark(line.removeprefix(MARK))
        lines = [line]
        while lines[-1].endswith("\\"):
            lines[-1] = lines[-1].removesuffix("\\")
            lines.append(input(_shown(FURTHER_PROMPT)).rstrip())
        return "\n".join(lines).strip()

    def _completion(self, begun: str, number: int) -> str | None:
        """Returns one of the words that begin so, by number; None after the last."""
        if readline is None or readline.get_begidx() > 0 or not begun:
            return None
        found = [word for word in self._words if word.startswith(begun)]
        return found[number] if number < len(found) else None


def _until_mark(line: str) -> str:
    lines = [line]
    while not lines[-1].rstrip().endswith(MARK):
        lines.append(input(_shown(FURTHER_PROMPT)))
    lines[-1] = lines[-1].rstrip().removesuffix(MARK)
    return "\n".join(lines).strip()


def _shown(prompt: str) -> str:
    """Returns a prompt in color, with marks around what takes no room, from which readline knows its width."""
    return prompt if readline is None else f"\x01\x1b[1;36m\x02{prompt}\x01\x1b[0m\x02"
