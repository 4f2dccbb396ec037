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


async def test_a_start_is_given_up_once_it_makes_no_progress(tmp_path: Path) -> None:
    """Reports are progress, and so is computing. To end again and again is none. All wait at the same time."""
    scripts = {
        "reports": REPORTING,
        "computes": COMPUTING,
        "does nothing": "import time; time.sleep(60)",
        "ends": "sum(range(3_000_000))",
    }
    for name in scripts:
        (tmp_path / name).mkdir()
    given_up = await asyncio.gather(*(silent_after(tmp_path / name, script) for name, script in scripts.items()))
    found = dict(zip(scripts, given_up, strict=True))
    seconds, reports = found["reports"]
    assert seconds > 0.3 * 7 + SILENCE - 0.5
    assert reports[-1] == "packing weights 87 %"
    seconds, reports = found["computes"]
    assert seconds > 3
    assert reports == []
    assert SILENCE <= found["does nothing"][0] < 15
    assert found["ends"][0] < 15
