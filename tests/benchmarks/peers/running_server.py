"""A peer's HTTP server, running for as long as it is needed."""

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence

import httpx2

START_SECONDS = 600.0
STOP_SECONDS = 20.0


@contextlib.contextmanager
def running_server(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yields its address once it answers on /health. `command` is told the port at its end. Raises RuntimeError where
    it does not start."""
    port = _free_port()
    process = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | dict(environment or {}),
    )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_ready(process, command[0], url)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_ready(process: "subprocess.Popen[bytes]", name: str, url: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"{name} ended with code {process.returncode}")
        with contextlib.suppress(httpx2.TransportError):
            if httpx2.get(f"{url}/health", timeout=5).status_code == httpx2.codes.OK:
                return
        time.sleep(0.2)
    raise RuntimeError(f"{name} was not ready within {START_SECONDS} s")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
