"""Memory and descriptors of the processes of a platform, over time."""

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import psutil
from tests.faults.platforms import Platform

MIB = 1024 * 1024


@dataclass(frozen=True)
class Footprint:
    """One process at one moment."""

    moment: float
    """Time of the measurement, in monotonic seconds."""
    pid: int
    own_mib: float
    """Memory that it shares with nobody: it would be free if the process ended."""
    descriptors: int


def footprints(platform: Platform) -> dict[str, Footprint]:
    """One for each process. Raises ProcessLookupError while one is being started again."""
    found = {}
    for name in platform.names():
        process = psutil.Process(platform.pid(name))
        own = process.memory_full_info().uss / MIB
        found[name] = Footprint(time.monotonic(), process.pid, own, process.num_fds())
    return found


def growth_per_hour(samples: Sequence[Footprint]) -> float:
    """MiB that a process grows by per hour: the slope of the line with the least squares through its samples."""
    line = statistics.linear_regression([sample.moment for sample in samples], [sample.own_mib for sample in samples])
    return line.slope * 3600


def second_half(samples: Sequence[Footprint]) -> Sequence[Footprint]:
    """The samples after the middle."""
    return samples[len(samples) // 2 :]


def restarted(samples: Mapping[str, Sequence[Footprint]]) -> list[str]:
    """Names of the processes that did not live through all samples."""
    return [name for name, series in samples.items() if any(a.pid != b.pid for a, b in pairwise(series))]
