"""llama.cpp's own server."""

from contextlib import AbstractContextManager
from pathlib import Path

from tests.benchmarks.peers.running_server import running_server


def running_llama_server(
    program: Path, model: Path, threads: int, slots: int, slot_tokens: int
) -> AbstractContextManager[str]:
    """Runs llama.cpp's server, and yields its address. Prompts are not kept."""
    command = [str(program), "-m", str(model), "-t", str(threads), "-tb", str(threads)]
    command += ["-np", str(slots), "-c", str(slots * slot_tokens)]
    command += ["--no-cache-prompt", "--cache-ram", "0", "--no-webui", "--log-disable"]
    return running_server(command)
