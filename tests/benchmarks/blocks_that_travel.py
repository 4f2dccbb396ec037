"""Two platforms side by side: on one KV blocks travel between the two workers, on the other they are computed again."""

from contextlib import AbstractContextManager
from pathlib import Path

from tests.benchmarks.grown_platforms import grown_platforms
from tests.harness.running_platform import RunningPlatform

KINDS = {"computed": 1 << 30, "fetched": 256}
"""Fewest tokens for which KV blocks travel."""


def platforms_of_kinds(
    folder: Path, shape: str, worker_settings: str = ""
) -> AbstractContextManager[dict[str, RunningPlatform]]:
    """Starts a platform of each kind. Its workers have one thread, and do not speculate. `worker_settings`: further
    lines of TOML."""
    worker = f"[worker]\nspeculation = 'off'\nthread_count = 1\n{worker_settings}\n"
    settings = {kind: f"[scheduler]\nleast_transfer_token_count = {least}\n\n{worker}" for kind, least in KINDS.items()}
    return grown_platforms(folder, shape, settings, replicas=2)
