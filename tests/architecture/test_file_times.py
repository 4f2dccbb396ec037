"""The closing table of seconds by file names what is beyond its bound, and its bounds are of files that exist."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.file_times import (
    MIN_FILES,
    PROCESSOR_SECONDS,
    USUAL,
    FileTimes,
    beyond,
    make_table,
    processor_seconds,
    read_bounds,
    read_times,
    verdict,
)

BOUNDS = {USUAL: 10.0, "tests/b.py": 30.0}
MAX_BOUNDS = 60


def test_a_file_is_measured_against_its_own_bound_or_the_usual_one() -> None:
    seconds = {"tests/a.py": 11.0, "tests/b.py": 29.0, "tests/c.py": 9.0}
    assert beyond(seconds, BOUNDS) == ["tests/a.py"]
    assert verdict(seconds, BOUNDS).startswith("1 of 3 files took longer")
    assert verdict({"tests/b.py": 30.0}, BOUNDS) == "Every file kept within its bound."


def test_the_table_has_the_slowest_and_all_that_are_late() -> None:
    quick = {f"tests/{number}.py": 20.0 for number in range(20)}
    bounds = {**BOUNDS, **dict.fromkeys(quick, 100.0)}
    assert make_table(quick, {}, bounds).row_count == 15
    assert make_table({**quick, "tests/late.py": 12.0, "tests/in_time.py": 9.0}, {}, bounds).row_count == 16


def test_steps_of_a_test_add_up_to_its_file(tmp_path: Path) -> None:
    times = FileTimes(tmp_path)
    for name in (*(f"tests/{number}.py" for number in range(MIN_FILES)), "tests/0.py"):
        for when in ("setup", "call", "teardown"):
            report = pytest.TestReport(f"{name}::test_x", (name, 1, "test_x"), {}, "passed", None, when, duration=0.5)
            report.user_properties += [(PROCESSOR_SECONDS, 0.5)] if when == "teardown" else []
            times.pytest_runtest_logreport(report)
    times.write()
    assert read_times(tmp_path)["tests/0.py"] == {"elapsed": 3.0, "processor": 1.0}
    assert read_times(tmp_path)["tests/1.py"] == {"elapsed": 1.5, "processor": 0.5}


@pytest.mark.process
def test_processor_time_includes_processes_that_were_waited_for() -> None:
    before = processor_seconds()
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.2: pass"], check=True)
    assert processor_seconds() >= before + 0.15


def test_bounds_are_of_files_that_exist(root: Path) -> None:
    bounds = read_bounds(root)
    assert [name for name in bounds if name != USUAL and not (root / name).is_file()] == []
    assert len(bounds) < MAX_BOUNDS
    assert all(bound >= bounds[USUAL] for bound in bounds.values())
