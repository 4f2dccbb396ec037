"""Nodes are those with memory that have a core of this process."""

import os
from pathlib import Path

import pytest

from headrace.engine.memory.numa_nodes import usable_nodes

TWO = {"has_memory": "0-1\n", "node0/cpulist": "0-3,8-11\n", "node1/cpulist": "4-7,12-15\n"}


def machine(root: Path, files: dict[str, str]) -> Path:
    """Describes a machine as Linux does."""
    folder = root / "sys/devices/system/node"
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return root


@pytest.mark.parametrize(
    ("cores", "expected"),
    [(range(16), [0, 1]), ({3, 12}, [0, 1]), ({0, 1, 9}, [0]), ({4, 15}, [1]), ({99}, [])],
)
def test_nodes_whose_cores_the_process_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: set[int], expected: list[int]
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(cores))
    assert usable_nodes(machine(tmp_path, TWO)) == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"has_memory": "0\n", "node0/cpulist": "0-15\n"}, [0]),
        # Memory without cores, as on a CXL device; cores without memory.
        (TWO | {"has_memory": "0-2\n", "node2/cpulist": "\n"}, [0, 1]),
        (TWO | {"has_memory": "1\n"}, [1]),
        (TWO | {"has_memory": "0,10\n", "node10/cpulist": "5\n"}, [0, 10]),
        ({}, []),
    ],
)
def test_nodes_of_other_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], expected: list[int]
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    assert usable_nodes(machine(tmp_path, files)) == expected


def test_this_machine_has_the_cores_that_it_says() -> None:
    nodes = usable_nodes()
    if not nodes:
        pytest.skip("the system tells of no nodes; to run it: Linux with /sys")
    assert all(Path(f"/sys/devices/system/node/node{node}").is_dir() for node in nodes)
