"""llama.cpp's own server, running for as long as it is needed."""

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2

START_SECONDS = 300.0
STOP_SECONDS = 10.0


@contextlib.contextmanager
def running_llama_server(program: Path, model: Path, threads: int, slots: int, slot_tokens: int) -> Iterator[str]:
    """Yields its address once it answers. Prompts are not kept. Raises RuntimeError where it does not start."""
    port = _free_port()
    command = [str(program), "-m", str(model), "--host", "127.0.0.1", "--port", str(port)]
    command += ["-t", str(threads), "-tb", str(threads), "-np", str(slots), "-c", str(slots * slot_tokens)]
    command += ["--no-cache-prompt", "--cache-ram", "0", "--no-webui", "--log-disable"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_ready(process, url)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_ready(process: "subprocess.Popen[bytes]", url: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"llama-server ended with code {process.returncode}")
        with contextlib.suppress(httpx2.TransportError):
            if httpx2.get(f"{url}/health", timeout=5).status_code == httpx2.codes.OK:
                return
        time.sleep(0.2)
    raise RuntimeError(f"llama-server was not ready within {START_SECONDS} s")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
