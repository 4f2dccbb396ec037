"""Platforms of the grown model side by side, which differ in their settings."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.benchmarks.grown_model import SHAPES, grow
from tests.benchmarks.read_stream import MODEL
from tests.harness.running_platform import ONE_TOKENIZER, RunningPlatform, running_platform

from headrace.demo_model import CHECKPOINT


@contextlib.contextmanager
def grown_platforms(
    folder: Path, shape: str, settings: Mapping[str, str], replicas: int = 1
) -> Iterator[dict[str, RunningPlatform]]:
    """Yields a platform for each of the `settings`, which are lines of TOML."""
    checkpoint = folder / MODEL
    grow(CHECKPOINT, checkpoint, SHAPES[shape][0])
    with contextlib.ExitStack() as stack:
        platforms = {}
        for kind, lines in settings.items():
            config = folder / f"{kind}.toml"
            config.write_text(lines)
            arguments = [str(checkpoint), "--replicas", str(replicas), "--config", str(config)]
            started = running_platform(folder / kind, arguments, counts=ONE_TOKENIZER)
            platforms[kind] = stack.enter_context(started)
        yield platforms
