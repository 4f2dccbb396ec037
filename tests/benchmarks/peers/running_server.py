"""A peer's HTTP server, running for as long as it is needed."""

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence

import httpx2
from tests.harness.free_ports import free_ports

START_SECONDS = 600.0
STOP_SECONDS = 20.0


@contextlib.contextmanager
def running_server(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yields its address once it answers on /health. `command` is told the port at its end. Raises RuntimeError where
    it does not start."""
    port = free_ports(1)[0]
    whole = [*command, "--host", "127.0.0.1", "--port", str(port)]
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(tempfile.TemporaryFile("w+"))
        process = subprocess.Popen(whole, stdout=log, stderr=log, env=os.environ | dict(environment or {}))
        stack.callback(_stop, process)
        url = f"http://127.0.0.1:{port}"
        if not _is_ready(process, url):
            log.seek(0)
            raise RuntimeError(f"{command[0]} did not start; its code is {process.poll()}:\n{log.read()[-3000:]}")
        yield url


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _is_ready(process: "subprocess.Popen[bytes]", url: str) -> bool:
    """Waits until a server answers; False when it has ended, or took too long."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(httpx2.TransportError):
            if httpx2.get(f"{url}/health", timeout=5).status_code == httpx2.codes.OK:
                return True
        time.sleep(0.2)
    return False
