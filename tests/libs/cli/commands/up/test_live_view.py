"""Table of a start that a person watches."""

import asyncio
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from rich.console import Console

from headrace.cli.commands.up.live_view import _service_table
from headrace.launch.platform_spec import ModelSource
from headrace.supervisor.platform import Platform
from headrace.supervisor.process import LocalProcess, SupervisedProcess
from headrace.supervisor.spawning.process_start import ProcessStart
from headrace.supervisor.spawning.program_spawner import ProgramSpawner


@dataclass
class Starting:
    """Part of a platform that the table reads."""

    processes: Sequence[SupervisedProcess]
    models: Sequence[ModelSource]


async def never() -> bool:
    return False


def process(name: str, model: str, folder: Path) -> SupervisedProcess:
    start = ProcessStart([], folder / name)
    spec = LocalProcess(name, start, lambda: asyncio.ensure_future(never()), never, lambda: "[::1]:1", model=model)
    return SupervisedProcess(spec, ProgramSpawner(), lambda: None)


def rows(processes: Sequence[SupervisedProcess], models: Sequence[ModelSource]) -> list[str]:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(_service_table(cast("Platform", Starting(processes, models))))
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_a_worker_shows_its_models_and_their_adapters(tmp_path: Path) -> None:
    models = [
        ModelSource("chat", tmp_path, adapters={"tuned": tmp_path, "terse": tmp_path}),
        ModelSource("other", tmp_path),
    ]
    names = {"cache": "", "worker-0": "chat", "worker-1": "other", "worker-2": "chat, other"}
    head, cache, *workers = rows([process(*each, tmp_path) for each in names.items()], models)
    assert head.split() == ["service", "state", "pid", "address", "model"]
    assert cache.split() == ["cache", "starting", "[::1]:1"]
    shown = [worker.partition("[::1]:1")[2].strip() for worker in workers]
    assert shown == ["chat + tuned + terse", "other", "chat + tuned + terse, other"]
