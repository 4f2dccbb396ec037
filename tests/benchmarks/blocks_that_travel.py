"""Two platforms side by side: on one KV blocks travel between the two workers, on the other they are computed again."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.grown_model import SHAPES, grow
from tests.harness.running_platform import ONE_TOKENIZER, RunningPlatform, running_platform

from headrace.demo_model import CHECKPOINT

KINDS = {"computed": 1 << 30, "fetched": 256}
"""Fewest tokens for which KV blocks travel."""
MODEL = "grown"


@contextlib.contextmanager
def platforms_of_kinds(folder: Path, shape: str, worker_settings: str = "") -> Iterator[dict[str, RunningPlatform]]:
    """Yields a platform of each kind. Its workers have one thread, and do not speculate. `worker_settings`: further
    lines of TOML."""
    checkpoint = folder / MODEL
    grow(CHECKPOINT, checkpoint, SHAPES[shape][0])
    with contextlib.ExitStack() as stack:
        platforms = {}
        for kind, least in KINDS.items():
            config = folder / f"{kind}.toml"
            config.write_text(
                f"[scheduler]\nleast_transfer_token_count = {least}\n"
                f"\n[worker]\nspeculation = 'off'\nthread_count = 1\n{worker_settings}\n"
            )
            arguments = [str(checkpoint), "--replicas", "2", "--config", str(config)]
            started = running_platform(folder / kind, arguments, counts=ONE_TOKENIZER)
            platforms[kind] = stack.enter_context(started)
        yield platforms
