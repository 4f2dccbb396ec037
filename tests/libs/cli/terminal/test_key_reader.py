"""Keys are read one by one, and the terminal is left as it was."""

import os
import pty
import signal
import termios
import threading
from collections.abc import Iterator

import pytest

from headrace.cli.terminal.key_reader import KeyReader


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """The user's side of a terminal, and the program's, which stands in for stdin."""
    user, program = pty.openpty()
    with os.fdopen(os.dup(program)) as standing_in:
        monkeypatch.setattr("sys.stdin", standing_in)
        yield user, program
    os.close(user)
    os.close(program)


def test_keys_come_as_they_are_pressed(terminal: tuple[int, int]) -> None:
    with KeyReader() as keys:
        os.write(terminal[0], b"tq")
        assert [keys.read(10), keys.read(10)] == ["t", "q"]
        os.write(terminal[0], b"\x1b[A")
        assert keys.read(10) == ""
        assert keys.read(0) == ""


@pytest.mark.parametrize("error", [None, KeyboardInterrupt, RuntimeError])
def test_the_terminal_is_left_as_it_was(terminal: tuple[int, int], error: type[BaseException] | None) -> None:
    before, handler = termios.tcgetattr(terminal[1]), signal.getsignal(signal.SIGTERM)
    try:
        with KeyReader():
            assert termios.tcgetattr(terminal[1]) != before
            if error is not None:
                raise error
    except (KeyboardInterrupt, RuntimeError):
        pass
    assert termios.tcgetattr(terminal[1]) == before
    assert signal.getsignal(signal.SIGTERM) == handler


def test_another_size_of_the_window_wakes_it(terminal: tuple[int, int]) -> None:
    with KeyReader() as keys:
        timer = threading.Timer(0.05, signal.raise_signal, [signal.SIGWINCH])
        timer.start()
        assert keys.read(60) == ""
        timer.join(10)


def test_a_stop_signal_ends_the_program_in_order(terminal: tuple[int, int]) -> None:
    with pytest.raises(SystemExit) as ended, KeyReader():
        signal.raise_signal(signal.SIGTERM)
    assert ended.value.code == 128 + signal.SIGTERM


def test_without_a_terminal_it_only_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull) as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        with KeyReader() as keys:
            assert keys.read(0.01) == ""
