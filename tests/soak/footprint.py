"""Memory and descriptors of the processes of a platform, over time."""

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psutil
from tests.faults.platforms import Platform

MAX_GROWTH = 1.0
"""Maximum growth of anonymous memory in the second half, in MiB per hour."""
MAX_MIB = {"nats": 32.0}
"""Maximum of anonymous memory, in MiB, of processes whose buffers take longer than an hour to fill. A server of NATS
holds the block that it writes of each bucket, of up to 4 MiB, and copies of it while it makes the block smaller: leases
are renewed some 17,000 times an hour, with 160 bytes each."""


@dataclass(frozen=True)
class Footprint:
    """One process at one moment."""

    moment: float
    """Time of the measurement, in monotonic seconds."""
    pid: int
    own_mib: float
    """Memory that it shares with nobody: it would be free if the process ended. It grows without any being taken: where
    pages of files are read for the first time, and where pages are written to that a fork has from its fork server."""
    anonymous_mib: float
    """Memory that holds no file, its own and what it shares with its fork server: what was ever taken and written."""
    descriptors: int


def footprints(platform: Platform) -> dict[str, Footprint]:
    """One for each process. Raises ProcessLookupError while one is being started again."""
    return {name: footprint(psutil.Process(platform.pid(name))) for name in platform.names()}


def footprint(process: psutil.Process) -> Footprint:
    """Measures one process, as Linux tells it."""
    kilobytes: dict[str, int] = {}
    for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, _, size = line.partition(":")
        kilobytes[name] = int(size.split()[0])
    own = kilobytes["Private_Clean"] + kilobytes["Private_Dirty"]
    return Footprint(time.monotonic(), process.pid, own / 1024, kilobytes["Anonymous"] / 1024, process.num_fds())


def growth_per_hour(samples: Sequence[Footprint]) -> float:
    """MiB that a process takes more per hour: the slope of the line with the least squares through its samples."""
    moments, sizes = [sample.moment for sample in samples], [sample.anonymous_mib for sample in samples]
    return statistics.linear_regression(moments, sizes).slope * 3600


def growing(samples: Mapping[str, Sequence[Footprint]]) -> list[str]:
    """Names of the processes that take more memory than they may: MAX_MIB at any time, or MAX_GROWTH at the end."""
    return [name for name, series in samples.items() if _is_growing(series, MAX_MIB.get(name))]


def _is_growing(samples: Sequence[Footprint], most_mib: float | None) -> bool:
    if most_mib is not None:
        return max(sample.anonymous_mib for sample in samples) > most_mib
    return growth_per_hour(second_half(samples)) > MAX_GROWTH


def second_half(samples: Sequence[Footprint]) -> Sequence[Footprint]:
    """The samples after the middle."""
    return samples[len(samples) // 2 :]


def restarted(samples: Mapping[str, Sequence[Footprint]]) -> list[str]:
    """Names of the processes that did not live through all samples."""
    return [name for name, series in samples.items() if any(a.pid != b.pid for a, b in pairwise(series))]
