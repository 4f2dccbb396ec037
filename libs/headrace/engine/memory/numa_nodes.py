"""NUMA nodes of this machine: groups of cores with local memory, as Linux describes them in `/sys`."""

import os
from pathlib import Path


def usable_nodes(root: Path = Path("/")) -> list[int]:
    """Lists the nodes with memory whose cores this process may use, ascending. Empty where the system tells of none."""
    folder = root / "sys/devices/system/node"
    with_memory = _numbers(folder / "has_memory")
    cores = _bound_cores()
    return [node for node in sorted(with_memory) if _numbers(folder / f"node{node}" / "cpulist") & cores]


def _bound_cores() -> set[int]:
    return set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else set()


def _numbers(path: Path) -> set[int]:
    """Reads a list as Linux writes it, such as `0-3,8`. Empty where there is no such file, or it may not be read."""
    try:
        parts = path.read_text(encoding="ascii").strip().split(",")
    except OSError:
        return set()
    ends = [part.split("-") for part in parts if part]
    return {number for end in ends for number in range(int(end[0]), int(end[-1]) + 1)}
