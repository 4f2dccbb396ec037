"""Cores that this process may use: those it is bound to, within the quotas of its control groups."""

import os
from collections.abc import Iterator
from pathlib import Path

from headrace.engine.memory.control_groups import controller_folders, read_limit, unified_folders


def usable_core_count(root: Path = Path("/")) -> int:
    """Returns how many threads can run at once, at least 1. A part of a core beside whole ones counts for nothing: a
    thread that is throttled keeps all others waiting."""
    return max(1, int(min([float(_bound_core_count()), *_quotas(root)])))


def _bound_core_count() -> int:
    """Returns the cores that the scheduler may give this process. Not every system can bind one."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _quotas(root: Path) -> Iterator[float]:
    """Processor time per time, of every group that limits it: `docker run --cpus`, Kubernetes' limits."""
    for folder in unified_folders(root):
        words = read_limit(folder / "cpu.max").split()
        if len(words) == 2 and all(word.isdigit() for word in words) and int(words[1]):
            yield int(words[0]) / int(words[1])
    for folder in controller_folders(root, "cpu"):
        quota, period = (read_limit(folder / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period"))
        if quota.isdigit() and period.isdigit() and int(period):
            yield int(quota) / int(period)
