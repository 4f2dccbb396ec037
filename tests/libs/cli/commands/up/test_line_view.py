"""Lines about a start, where no person watches."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from headrace.cli.commands.up.line_view import LineView
from headrace.cli.commands.up.ready_page import ReadyPage
from headrace.supervisor.platform import Platform
from headrace.supervisor.process import LocalProcess, SupervisedProcess
from headrace.supervisor.spawning.process_start import ProcessStart
from headrace.supervisor.spawning.program_spawner import ProgramSpawner


@dataclass
class Processes:
    """Part of a platform that a view reads while it starts."""

    processes: Sequence[SupervisedProcess]


async def never() -> bool:
    return False


def process(name: str, folder: Path) -> SupervisedProcess:
    start = ProcessStart([], folder / name)
    spec = LocalProcess(name, start, lambda: asyncio.ensure_future(never()), never, lambda: "")
    return SupervisedProcess(spec, ProgramSpawner(), lambda: None)


def test_a_line_for_each_change_and_none_while_it_stops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worker, cache = process("worker-0", tmp_path), process("cache", tmp_path)
    platform = cast("Platform", Processes([worker, cache]))
    view = LineView(ReadyPage(tmp_path, None, 0.0))
    worker.progress = "packing weights 40 %"
    view.on_change(platform)
    worker.progress = "packing weights 41 %"
    cache.state = "ready"
    view.on_change(platform)
    view.on_change(platform)
    cache.state = "restarting"
    view.on_change(platform)
    said = [line.split(" s  ")[1] for line in capsys.readouterr().out.splitlines()]
    assert said == ["worker-0 packing weights 40 %", "cache is ready", "cache has ended, and is started again"]
    view.on_stopping()
    worker.state = "ready"
    view.on_change(platform)
    assert capsys.readouterr().out.splitlines() == ["Stopping what was started …"]
