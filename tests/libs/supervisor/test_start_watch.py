"""A start may take as long as it makes progress, and is given up when it is silent."""

import asyncio
import sys
import time
from pathlib import Path

import pytest

from headrace.supervisor.process import LocalProcess, SupervisedProcess
from headrace.supervisor.spawning.process_start import ProcessStart
from headrace.supervisor.spawning.program_spawner import ProgramSpawner
from headrace.supervisor.start_watch import StartWatch

pytestmark = [pytest.mark.anyio, pytest.mark.process, pytest.mark.slow]
REPORTING = """
import json, sys, time
for done in range(8):
    print(json.dumps({"message": "packing weights", "done": done, "total": 8}), flush=True)
    time.sleep(0.3)
time.sleep(60)
"""
COMPUTING = """
import time
end = time.monotonic() + 3
while time.monotonic() < end: pass
time.sleep(60)
"""
SILENCE = 1.5


async def silent_after(folder: Path, script: str) -> tuple[float, list[str]]:
    """Returns the seconds until the start was given up, and what was reported until then."""

    async def never() -> bool:
        return False

    spec = LocalProcess(
        name="worker-0",
        start=ProcessStart([sys.executable, "-c", script], folder / "log"),
        is_ready=lambda: asyncio.ensure_future(never()),
        answers=never,
        address=lambda: "",
    )
    process = SupervisedProcess(spec, ProgramSpawner(), lambda: None)
    process.start()
    reports: list[str] = []
    watch = StartWatch(lambda: [process], lambda: reports.append(process.progress))
    started = time.monotonic()
    try:
        waiting = await asyncio.wait_for(watch.until_silent(SILENCE), 30)
        assert waiting == [process]
        return time.monotonic() - started, reports
    finally:
        await process.stop()


async def test_reports_are_progress(tmp_path: Path) -> None:
    seconds, reports = await silent_after(tmp_path, REPORTING)
    assert seconds > 0.3 * 7 + SILENCE - 0.5
    assert reports[-1] == "packing weights 87 %"


async def test_computing_is_progress(tmp_path: Path) -> None:
    seconds, reports = await silent_after(tmp_path, COMPUTING)
    assert seconds > 3
    assert reports == []


async def test_a_process_that_does_nothing_is_given_up(tmp_path: Path) -> None:
    seconds, _ = await silent_after(tmp_path, "import time; time.sleep(60)")
    assert SILENCE <= seconds < 15


async def test_a_process_that_ends_again_and_again_is_given_up(tmp_path: Path) -> None:
    seconds, _ = await silent_after(tmp_path, "sum(range(3_000_000))")
    assert seconds < 15
