"""Platforms in the background: started, looked at, started again and stopped by commands, each a process of its own."""

import fcntl
import json
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
from tests.e2e.command_line import Done, headrace, headrace_here
from tests.harness.ended import wait_ended

from headrace.supervisor.state import read_platform

QUICK = ["--engine", "sim", "--tokenizers", "1", "--http-port", "0", "--grpc-port", "0"]
SECONDS = 60.0


@pytest.fixture
def state(tmp_path: Path) -> Iterator[list[str]]:
    """Arguments that name a state folder, on which nothing runs afterwards."""
    folder = tmp_path / "state"
    yield ["--state-dir", str(folder)]
    headrace_here("stop", "--timeout", "5", "--state-dir", str(folder))


def family(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def status(state: list[str]) -> tuple[int, dict[str, Any]]:
    done = headrace_here("status", "--json", *state)
    return done.returncode, json.loads(done.stdout)


def in_a_terminal(*arguments: str, keys: str = "", wait_for: str = "") -> tuple[str, int]:
    """Runs a command in a terminal of 80 columns, which is closed when it has ended. Keys are pressed once some text is
    shown. Returns what it showed, and its exit code."""
    terminal, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 80, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace.cli", *arguments],
        stdin=side,
        stdout=side,
        stderr=side,
        env=environment | {"TERM": "xterm"},
        start_new_session=True,
        # Without it, neither Ctrl-C nor the end of the terminal would reach the command.
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(side)
    shown, deadline = "", time.monotonic() + SECONDS
    with suppress(OSError):
        while time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.1)[0]:
                if not (chunk := os.read(terminal, 65536)):
                    break
                shown += chunk.decode(errors="replace")
            if keys and wait_for in shown:
                os.write(terminal, keys.encode())
                keys = ""
    os.close(terminal)
    try:
        return shown, process.wait(10)
    finally:
        process.kill()
        process.wait(10)


def test_a_platform_outlives_its_terminal_and_is_started_again_with_its_arguments(state: list[str]) -> None:
    shown, code = in_a_terminal("up", "other=headrace-demo", *QUICK, "-d", *state)
    assert code == 0, shown
    assert "Running in the background" in shown
    running, first = status(state)
    assert (running, first["health"], first["models"]) == (0, "ready", ["other"])
    processes = family(first["pid"])
    assert {service["pid"] for service in first["services"]} <= {process.pid for process in processes}
    assert httpx2.get(f"{first['http']}/ready", timeout=10).status_code == 200
    table = headrace_here("status", *state).stdout
    assert "other" in table
    assert all(len(line) <= 80 for line in table.splitlines() if "state" not in line)

    restarted = headrace("restart", *state)
    assert restarted.returncode == 0, restarted.stderr
    assert "worker-0 is ready" in restarted.stdout
    _, second = status(state)
    assert second["models"] == ["other"]
    assert second["pid"] != first["pid"]
    assert wait_ended(processes, 5) == []

    processes = family(second["pid"])
    stopped = headrace_here("stop", *state)
    assert (stopped.returncode, stopped.stdout.splitlines()[-1]) == (0, "Stopped.")
    assert wait_ended(processes, 5) == []
    assert status(state)[0] == 3
    assert "the platform is ready" in headrace_here("logs", "supervisor", *state).stdout


def test_a_second_platform_is_refused_and_a_killed_one_is_cleaned_up(state: list[str], tmp_path: Path) -> None:
    up = ["up", *QUICK, "--detach", *state]
    assert headrace(*up).returncode == 0
    pid = status(state)[1]["pid"]
    refused = headrace(*up)
    assert refused.returncode == 1
    assert f"already runs on {tmp_path / 'state'} (pid {pid}). Stop it with headrace stop" in refused.stderr
    assert status(state)[1]["pid"] == pid
    processes = family(pid)
    os.kill(pid, signal.SIGKILL)
    assert wait_ended(processes, 10) == []
    killed = headrace_here("status", *state)
    assert (killed.returncode, "was killed" in killed.stdout) == (3, True)
    assert "what a killed platform left is removed" in headrace_here("stop", *state).stdout
    assert "was killed" not in headrace_here("status", *state).stdout


def test_a_failure_is_said_and_leaves_nothing(state: list[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        failed = headrace("up", "--engine", "sim", "--http-port", port, "--grpc-port", "0", "-d", *state)
    assert failed.returncode == 1
    assert f"error: port {port} is in use" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert status(state)[0] == 3


def test_an_interrupt_ends_the_start(state: list[str]) -> None:
    _, code = in_a_terminal("up", *QUICK, "-d", *state, keys="\x03", wait_for="Starting")
    assert code == 130
    assert status(state)[0] == 3


def test_a_start_in_a_log_has_a_line_for_each_service(state: list[str]) -> None:
    command = [sys.executable, "-m", "headrace.cli", "up", *QUICK, *state]
    # Where the tests run under nohup, it would ignore the signal, as it should.
    listens = partial(signal.signal, signal.SIGHUP, signal.SIG_DFL)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=listens)
    said = []
    try:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                said.append(line.rstrip())
                if line.startswith("Ctrl-C"):
                    process.send_signal(signal.SIGHUP)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait(10)
    ready = [line.split()[2] for line in said if line.endswith("is ready")]
    assert sorted(ready) == ["cache", "gateway", "nats", "scheduler", "tokenizer", "worker-0"]
    assert said[-1] == "Stopping: finishing running requests …"


def test_a_start_that_fails_says_why_on_a_line_of_its_own(state: list[str], tmp_path: Path) -> None:
    config = tmp_path / "headrace.toml"
    config.write_text("[worker]\nmax_runing_count = 3\n")
    failed: Done = headrace("up", *QUICK, "--config", str(config), *state)
    assert failed.returncode == 1
    assert failed.stdout.splitlines()[-1] == "Stopping what was started …"
    assert failed.stderr.startswith("error: ")
    assert "did you mean worker.max_running_count?" in failed.stderr


def test_top_has_a_screen_of_its_own(state: list[str]) -> None:
    assert headrace("up", *QUICK, "-d", *state).returncode == 0
    for keys in ("q", "?q", "tq", "\x03"):
        shown, code = in_a_terminal("top", *state, keys=keys, wait_for="headrace-demo")
        assert code == 0, shown
        assert "\x1b[?1049h" in shown
        assert shown.rstrip().endswith("\x1b[?1049l")
    os.kill(read_platform(Path(state[1]))["pid"], signal.SIGKILL)
    ended, code = in_a_terminal("top", *state)
    assert code == 1
    assert "no platform runs" in ended
