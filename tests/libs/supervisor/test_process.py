"""A process in which a task failed is started again; one that refuses its settings is not."""

import asyncio
import sys
from pathlib import Path

import pytest

from headrace.domain.deadline import Deadline
from headrace.errors import ConfigError
from headrace.lifecycle.process_run import EXIT_BAD_START, EXIT_TASK_DIED
from headrace.supervisor.process import LocalProcess, SupervisedProcess
from headrace.supervisor.spawning.process_start import ProcessStart
from headrace.supervisor.spawning.program_spawner import ProgramSpawner

pytestmark = pytest.mark.anyio
ONCE = """
import pathlib, sys, time
mark = pathlib.Path(sys.argv[1])
if not mark.exists():
    mark.touch()
    print("the reason", flush=True)
    sys.exit(int(sys.argv[2]))
mark.with_suffix(".second").touch()
time.sleep(60)
"""


def supervised(folder: Path, code: int) -> SupervisedProcess:
    """A process that ends with `code` the first time, and lives the second."""
    second = folder / "mark.second"

    async def is_ready() -> bool:
        return second.exists()

    spec = LocalProcess(
        name="service",
        start=ProcessStart([sys.executable, "-c", ONCE, str(folder / "mark"), str(code)], folder / "log"),
        is_ready=lambda: asyncio.ensure_future(is_ready()),
        answers=is_ready,
        address=lambda: "",
    )
    return SupervisedProcess(spec, ProgramSpawner(), lambda: None)


@pytest.mark.process
async def test_a_process_whose_task_failed_is_started_again(tmp_path: Path) -> None:
    process = supervised(tmp_path, EXIT_TASK_DIED)
    process.start()
    try:
        await process.wait_ready(Deadline.after(30))
        assert process.restarts == 1
    finally:
        await process.stop()
    assert (tmp_path / "log").read_text() == "the reason\n"


@pytest.mark.process
async def test_a_process_that_refuses_its_settings_is_not(tmp_path: Path) -> None:
    process = supervised(tmp_path, EXIT_BAD_START)
    process.start()
    with pytest.raises(ConfigError, match="the reason"):
        await process.wait_ready(Deadline.after(30))
    await process.stop()
    assert not (tmp_path / "mark.second").exists()
