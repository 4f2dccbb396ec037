"""A whole platform as `headrace up` starts it, for end-to-end tests."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import psutil
from tests.harness.ended import wait_ended
from tests.harness.forked_up import ForkedUp, start_forked

from headrace.supervisor.state import read_platform

START_SECONDS = 90.0
STOP_SECONDS = 10.0
"""Maximum seconds that the contract allows between the signal and the exit."""
ONE_TOKENIZER = ("--tokenizers", "1")
"""Argument for one tokenizer instead of the usual two, of which the second takes a fifth of what a start takes."""
GONE_SECONDS = 3.0
"""Seconds after the exit within which the last helper of a killed process may still notice that it is alone."""


class RunningPlatform:
    """Controls a platform that is ready."""

    def __init__(self, process: "subprocess.Popen[str] | ForkedUp", ready: dict[str, Any], state_dir: Path) -> None:
        self.process = process
        self.ready = ready
        self.state_dir = state_dir
        self.http: str = ready["http"]
        self.grpc: str = ready["grpc"]

    def describe(self) -> dict[str, Any]:
        """Returns the output of `headrace ps --json`."""
        return read_platform(self.state_dir)

    def service(self, name: str) -> dict[str, Any]:
        return next(service for service in self.describe()["services"] if service["name"] == name)

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Sends a signal to one service, SIGKILL by default."""
        os.kill(self.service(name)["pid"], number)

    def wait_until_restarted(self, name: str, restarts: int, timeout: float = 30.0) -> None:
        """Waits until a service is ready again after having been restarted `restarts` times."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            service = self.service(name)
            if service["restarts"] >= restarts and service["state"] == "ready":
                return
            time.sleep(0.05)
        raise TimeoutError(f"{name} did not come back within {timeout} s: {self.service(name)}")

    def busy_worker(self, timeout: float = 10.0) -> str:
        """Returns the worker that runs the only request, or the first of several. Call it when a stream begins, because
        the request may end later, and begin it on an idle platform: workers report what has ended some time after."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            for line in httpx2.get(f"{self.http}/metrics", timeout=10).text.splitlines():
                if line.startswith("headrace_worker_open_requests{") and not line.endswith(" 0.0"):
                    return line.split('worker="')[1].split('"')[0]
            time.sleep(0.01)
        raise AssertionError("no worker is busy")

    def metrics(self) -> dict[str, float]:
        """Returns every metric of `/metrics`, each summed over all labels."""
        totals: dict[str, float] = {}
        for line in httpx2.get(f"{self.http}/metrics", timeout=10).text.splitlines():
            if not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                name = name.partition("{")[0]
                totals[name] = totals.get(name, 0.0) + float(value)
        return totals

    def wait_until_idle(self, timeout: float = 15.0) -> None:
        """Waits until no request, sequence, session or KV block is held anywhere."""
        names = ("requests_open", "requests_running", "requests_waiting", "kv_blocks_used", "worker_sessions")
        deadline = time.monotonic() + timeout
        while True:
            metrics = self.metrics()
            held = {name: metrics[f"headrace_{name}"] for name in names if metrics[f"headrace_{name}"] != 0}
            if not held:
                return
            if time.monotonic() > deadline:
                raise AssertionError(f"still held after {timeout} s: {held}")
            time.sleep(0.05)

    def log(self, name: str) -> str:
        return (self.state_dir / "logs" / f"{name}.log").read_text(errors="replace")


@contextlib.contextmanager
def running_platform(
    state_dir: Path,
    arguments: Sequence[str] = (),
    start_seconds: float = START_SECONDS,
    counts: Sequence[str] = ONE_TOKENIZER,
) -> Iterator[RunningPlatform]:
    """Starts a platform on free ports; on exit, stops it and checks that nothing of it is left. `counts` are further
    arguments that say how many services there are; without any, there are as many as by default."""
    process = start_up(["--state-dir", str(state_dir), "--http-port", "0", "--grpc-port", "0", *counts, *arguments])
    try:
        platform = RunningPlatform(process, _wait_ready(process, start_seconds), state_dir)
        yield platform
        descendants = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        code = process.wait(STOP_SECONDS)
        left = wait_ended(descendants, GONE_SECONDS)
        if code != 0 or left:
            raise AssertionError(f"exit code {code}, processes left: {left}")
    finally:
        _end(process)


def start_up(arguments: Sequence[str]) -> "subprocess.Popen[str] | ForkedUp":
    """Starts `headrace up --json`, which is forked where that can be. The caller ends it."""
    command = ["up", "--json", *arguments]
    if (forked := start_forked(command)) is not None:
        return forked
    program = [sys.executable, "-m", "headrace.cli", *command]
    return subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _wait_ready(process: "subprocess.Popen[str] | ForkedUp", start_seconds: float) -> dict[str, Any]:
    # Kills a process that starts too slowly, so that reading its output ends.
    limit = threading.Timer(start_seconds, process.kill)
    limit.start()
    event: dict[str, Any] = {}
    try:
        for line in process.stdout or ():
            event = json.loads(line)
            if event["event"] == "ready":
                return dict(event)
            if event["event"] == "error":
                break
    finally:
        limit.cancel()
    process.kill()
    raise AssertionError(f"the platform did not start: {event.get('message', '')}\n{process.communicate()[1]}")


def _end(process: "subprocess.Popen[str] | ForkedUp") -> None:
    if process.poll() is None:
        process.kill()
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
