"""Single keys from the terminal."""

import os
import select
import signal
import sys
import termios
import tty
from types import FrameType
from typing import Any

_CHUNK = 64
_ESCAPE = "\x1b"


class KeyReader:
    """Reads keys as they are pressed, without showing them. Use it as a context manager: it leaves the terminal as it
    was, however it ends. Where the input is no terminal, it only waits."""

    def __init__(self) -> None:
        self._input = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._pressed = ""
        """Keys that came with others, and were not returned yet."""
        self._saved: list[Any] = []
        self._handlers: dict[int, Any] = {}
        self._waking: tuple[int, int] = (-1, -1)

    def __enter__(self) -> "KeyReader":
        self._waking = os.pipe()
        os.set_blocking(self._waking[1], False)
        self._former_wakeup = signal.set_wakeup_fd(self._waking[1], warn_on_full_buffer=False)
        for number, handler in ((signal.SIGWINCH, _ignore), (signal.SIGTERM, _leave), (signal.SIGHUP, _leave)):
            self._handlers[number] = signal.signal(number, handler)
        # A program that is suspended would leave its screen to the shell.
        self._handlers[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
        if self._input is not None:
            self._saved = termios.tcgetattr(self._input)
            tty.setcbreak(self._input)
        return self

    def __exit__(self, *_: object) -> None:
        if self._input is not None:
            termios.tcsetattr(self._input, termios.TCSADRAIN, self._saved)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._former_wakeup)
        for descriptor in self._waking:
            os.close(descriptor)

    def read(self, seconds: float) -> str:
        """Returns the next key; empty after so many seconds, and when the window has another size."""
        if self._pressed:
            return self._next()
        wanted = [self._waking[0], *([] if self._input is None else [self._input])]
        ready = select.select(wanted, [], [], max(0.0, seconds))[0]
        if self._waking[0] in ready:
            os.read(self._waking[0], _CHUNK)
        if self._input is None or self._input not in ready:
            return ""
        text = os.read(self._input, _CHUNK).decode(errors="replace")
        if not text:
            # The terminal is gone: nothing more can be read.
            self._input = None
            return ""
        # Arrows and the like arrive as several characters after an escape.
        self._pressed = "" if text.startswith(_ESCAPE) and len(text) > 1 else text
        return self._next()

    def _next(self) -> str:
        key, self._pressed = self._pressed[:1], self._pressed[1:]
        return key


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Leaves it to the wakeup that a signal causes."""


def _leave(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
