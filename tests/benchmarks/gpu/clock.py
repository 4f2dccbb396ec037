"""Clocks for computations that take turns."""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

import torch

WARM_UPS = 3
FLUSHED_BYTES = 256 << 20
"""More than the last cache of any card: a decode finds no weight there either. Writing it also takes longer than the
host needs to launch what is timed, so that the host's time is not in the figure."""


class Clock(Protocol):
    def measure(self, runs: Sequence[Callable[[], object]], round_count: int) -> list[list[float]]:
        """Times each of `runs` once per round, one after the other. Returns seconds by run and round."""
        ...


class EventClock:
    """Clock of a CUDA device: events between the computations of its current stream."""

    def __init__(self) -> None:
        self._flushed = torch.empty(FLUSHED_BYTES, dtype=torch.int8, device="cuda")

    def measure(self, runs: Sequence[Callable[[], object]], round_count: int) -> list[list[float]]:
        for run in runs:
            for _ in range(WARM_UPS):
                run()
        pairs = [[self._timed(run) for run in runs] for _ in range(round_count)]
        torch.cuda.synchronize()
        by_run = zip(*pairs, strict=True)
        return [[begin.elapsed_time(end) / 1e3 for begin, end in own] for own in by_run]

    def _timed(self, run: Callable[[], object]) -> tuple[torch.cuda.Event, torch.cuda.Event]:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._flushed.zero_()
        begin.record()
        run()
        end.record()
        return begin, end


class HostClock:
    """Clock of computations that are over when they return."""

    def measure(self, runs: Sequence[Callable[[], object]], round_count: int) -> list[list[float]]:
        rounds = [[_seconds(run) for run in runs] for _ in range(round_count)]
        return [list(own) for own in zip(*rounds, strict=True)]


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started
