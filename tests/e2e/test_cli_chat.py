"""`headrace chat`: in a terminal, with a full context, interrupted."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

from tests.harness.running_platform import RunningPlatform

from headrace.cli.terminal.chat_turns import ChatHistory

LONG = "Tell me about batching. " * 120


def conversation(platform: RunningPlatform, **settings: object) -> ChatHistory:
    body = {"model": "headrace-demo", "temperature": 0, "max_tokens": 8} | settings
    return ChatHistory(f"{platform.http}/v1/chat/completions", body, "You are brief.")


def test_the_oldest_turns_are_dropped_when_the_context_is_full(demo_platform: RunningPlatform) -> None:
    talk = conversation(demo_platform)
    dropped = []
    for _ in range(5):
        assert "".join(talk.ask(LONG))
        dropped.append(talk.dropped_count)
    assert dropped[0] == 0
    assert sum(dropped) >= 1
    talk.clear()
    assert "".join(talk.ask("What is TTFT?"))
    assert talk.dropped_count == 0


def test_an_answer_that_is_broken_off_leaves_a_conversation(demo_platform: RunningPlatform) -> None:
    talk = conversation(demo_platform, max_tokens=200, ignore_eos=True)
    answer = talk.ask("What is continuous batching?")
    next(answer)
    answer.close()
    assert "".join(talk.ask("What is TTFT?"))


def test_speed_is_measured(demo_platform: RunningPlatform) -> None:
    talk = conversation(demo_platform, max_tokens=30)
    assert "".join(talk.ask("What is continuous batching?"))
    speed = talk.speed
    assert speed.ttft_seconds is not None
    assert 0 < speed.ttft_seconds <= speed.seconds
    assert 2 < speed.token_count <= 30
    assert speed.tokens_per_second is not None


TRIES = 15


class ProgramEnded(Exception):
    """The program has ended, and says no more."""


class Terminal:
    """A chat in a terminal of 60 columns."""

    def __init__(self, platform: RunningPlatform, *arguments: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
        command = [sys.executable, "-m", "headrace.cli", "chat", "--state-dir", str(platform.state_dir), *arguments]
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        environment |= {"TERM": "xterm", "XDG_STATE_HOME": str(platform.state_dir)}
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
        )
        os.close(slave)
        self.seen = ""

    def type(self, line: str) -> None:
        os.write(self._master, f"{line}\n".encode())

    def is_told_at_ctrl_c(self, pattern: str) -> bool:
        """Presses Ctrl-C until the program says something or ends, and returns whether it said this. A signal just
        before Python waits for a line is seen at the next one, together with it."""
        self.seen = ""
        for _ in range(TRIES):
            self.process.send_signal(signal.SIGINT)
            try:
                self.wait_for(pattern, 2)
            except AssertionError:
                continue
            except ProgramEnded:
                return False
            return True
        raise AssertionError(self.seen)

    def wait_for(self, pattern: str, seconds: float = 30) -> str:
        """Reads until the output has a text, and returns all so far."""
        deadline = time.monotonic() + seconds
        while not re.search(pattern, self.seen):
            ready, _, _ = select.select([self._master], [], [], max(0, deadline - time.monotonic()))
            assert ready, self.seen
            try:
                self.seen += os.read(self._master, 65536).decode(errors="replace")
            except OSError:
                raise ProgramEnded(f"exit status {self.process.wait(10)}: {self.seen}") from None
        found, self.seen = self.seen, ""
        return found

    def close(self) -> int:
        self.process.kill()
        os.close(self._master)
        return self.process.wait(10)


def test_lines_break_between_words_and_the_speed_is_shown(demo_platform: RunningPlatform) -> None:
    terminal = Terminal(demo_platform, "--temperature", "0")
    try:
        terminal.wait_for("Ctrl-D leaves")
        terminal.type("What is TTFT?")
        shown = terminal.wait_for(r"tokens/s")
        final = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\n", shown)
        assert re.search(r"TTFT \d+ ms, \d+ tokens, \d+ tokens/s", final)
        lines = [line.strip() for line in final.replace("\r", "").split("\n")]
        # Each line of the answer ends with a whole word of it.
        whole = "TTFT means time to first token: the time from sending a request until the first token arrives."
        words = {*whole.split(), "It", "contains"}
        begin = max(index for index, line in enumerate(lines) if line.startswith("TTFT means"))
        assert set(" ".join(lines[begin : begin + 2]).split()) <= words
        terminal.type("/exit")
        assert terminal.process.wait(10) == 0
    finally:
        terminal.close()


def test_lines_are_edited_remembered_and_completed(demo_platform: RunningPlatform) -> None:
    for is_first in (True, False):
        terminal = Terminal(demo_platform, "--temperature", "0")
        try:
            terminal.wait_for(r"Ctrl-D leaves[^>]*>")
            if is_first:
                # Left, left, and the letter that was forgotten; then several lines; then what the tab key completes.
                terminal.type("/set seed 17\x1b[D\x1b[D3")
                terminal.wait_for("seed is 317")
                terminal.type('"""/show')
                terminal.type('is no command here"""')
                terminal.wait_for("tokens/s|TTFT")
                terminal.type("/sho\t")
                terminal.wait_for(r"temperature 0.0, seed 317; 1 turn")
            # Up: the last line; in the next session the one before the last, with which this one was left.
            terminal.type("\x1b[A" if is_first else "\x1b[A\x1b[A")
            terminal.wait_for(r"headrace-demo: ")
            terminal.type("/exit")
            assert terminal.process.wait(10) == 0
        finally:
            terminal.close()
        history = demo_platform.state_dir / "headrace" / "chat_history"
        assert history.stat().st_mode & 0o077 == 0


def test_two_ctrl_c_at_the_prompt_leave_and_one_does_not(demo_platform: RunningPlatform) -> None:
    terminal = Terminal(demo_platform)
    try:
        terminal.wait_for(r"Ctrl-D leaves[^>]*>")
        for answers in (True, False):
            assert terminal.is_told_at_ctrl_c("Ctrl-C again")
            if answers:
                terminal.type("What is TTFT?")
                terminal.wait_for(r"tokens/s")
        assert not terminal.is_told_at_ctrl_c("Ctrl-C again")
        assert terminal.process.wait(10) == 0
    finally:
        terminal.close()


def test_ctrl_c_stops_the_answer_and_not_the_program(demo_platform: RunningPlatform) -> None:
    terminal = Terminal(demo_platform, "--temperature", "0.9", "--max-tokens", "1500")
    try:
        terminal.wait_for("Ctrl-D leaves")
        for _ in range(3):
            terminal.type("What is continuous batching?")
            terminal.wait_for(r"(?i)batch\w* ")
            terminal.process.send_signal(signal.SIGINT)
            # An answer that had ended by then is not stopped, and the program stays all the same.
            if "stopped" in terminal.wait_for(r"stopped|tokens/s|Ctrl-C again"):
                break
        terminal.type("What is TTFT?")
        terminal.wait_for(r"tokens/s")
        terminal.type("/exit")
        assert terminal.process.wait(10) == 0
    finally:
        terminal.close()
