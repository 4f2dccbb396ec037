"""Threads are as many as can run: cores that the process is bound to, within the quotas of containers."""

import os
from pathlib import Path

import pytest

from headrace.engine.memory.host_cores import usable_core_count

MANY = 64


@pytest.fixture(autouse=True)
def many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with 64 cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(MANY)))


def write(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


@pytest.mark.parametrize(
    ("quota", "expected"),
    [("200000 100000", 2), ("250000 100000", 2), ("50000 100000", 1), ("max 100000", MANY), ("9900000 100000", MANY)],
)
def test_a_container_has_the_cores_of_its_quota(tmp_path: Path, quota: str, expected: int) -> None:
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": f"{quota}\n"}
    assert usable_core_count(write(tmp_path, files)) == expected


def test_the_tightest_group_around_it_counts(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/pod/container\n",
        "sys/fs/cgroup/pod/cpu.max": "300000 100000\n",
        "sys/fs/cgroup/pod/container/cpu.max": "800000 100000\n",
    }
    assert usable_core_count(write(tmp_path, files)) == 3


@pytest.mark.parametrize(("quota", "expected"), [("400000", 4), ("-1", MANY)])
def test_groups_of_the_first_version(tmp_path: Path, quota: str, expected: int) -> None:
    folder = "sys/fs/cgroup/cpu/docker/7a"
    files = {"proc/self/cgroup": "3:cpu,cpuacct:/docker/7a\n"}
    files |= {f"{folder}/cpu.cfs_quota_us": quota, f"{folder}/cpu.cfs_period_us": "100000\n"}
    assert usable_core_count(write(tmp_path, files)) == expected


@pytest.mark.parametrize("content", ["", "max", "0 0", "-5 100000", "many 100000"])
def test_a_file_that_says_nothing_limits_nothing(tmp_path: Path, content: str) -> None:
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": content}
    assert usable_core_count(write(tmp_path, files)) == MANY


def test_a_process_that_is_bound_to_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5})
    assert usable_core_count(tmp_path) == 2
