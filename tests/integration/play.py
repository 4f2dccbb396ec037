"""A platform in one process to play with, under a debugger for example: `make play`, or

    python -m tests.integration.play [--engine sim]
    python -m pdb -m tests.integration.play

`breakpoint()` in any service stops all of them. Nobody is taken for lost or hung meanwhile.
"""

import argparse
import asyncio
import contextlib
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.integration.in_process_platform import InProcessPlatform, Shape, in_process_platform

from headrace import demo_model

MODEL = "headrace-demo"
PATIENCE = 86_400.0
"""Seconds for which somebody may look around at a breakpoint."""
PATIENT: Mapping[str, Mapping[str, Any]] = {
    "gateway": {
        "worker_silence_seconds": PATIENCE,
        "worker_stall_seconds": PATIENCE,
        "default_timeout_seconds": PATIENCE,
    },
    "scheduler": {"dispatch_seconds": PATIENCE, "no_worker_seconds": PATIENCE},
    "worker": {"step_seconds": PATIENCE, "first_step_seconds": PATIENCE, "attach_seconds": PATIENCE},
}


def shape(engine: str) -> Shape:
    """The bundled model, or the sim engine in its place, which needs no kernels and has no weights."""
    worker = {"model": MODEL, "engine": engine, "folder": demo_model.CHECKPOINT, "thread_count": 1}
    return Shape({MODEL: demo_model.CHECKPOINT}, [worker], PATIENT)


def curl(platform: InProcessPlatform) -> str:
    """Command line that asks the platform for a stream."""
    messages = [{"role": "user", "content": "What is a KV cache?"}]
    body = json.dumps({"model": MODEL, "messages": messages, "max_tokens": 48, "stream": True})
    return f"curl -N {platform.http}/v1/chat/completions -H 'content-type: application/json' -d '{body}'"


async def play(engine: str) -> None:
    """Runs the platform until cancelled."""
    with tempfile.TemporaryDirectory() as folder:
        async with in_process_platform(shape(engine), Path(folder)) as platform:
            print(f"All five services run in this process; gRPC is at {platform.grpc}. Ctrl-C ends them. Try:\n")
            print(curl(platform), flush=True)
            await asyncio.get_running_loop().create_future()


def main() -> None:
    parser = argparse.ArgumentParser("python -m tests.integration.play", description=__doc__)
    parser.add_argument("--engine", choices=("model", "sim"), default="model")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(play(parser.parse_args().engine))


if __name__ == "__main__":
    main()
