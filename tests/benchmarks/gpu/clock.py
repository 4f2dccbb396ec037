"""Clocks for computations that take turns."""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

import torch

WARM_UPS = 3
FLUSHED_BYTES = 256 << 20
"""More than the last cache of any card: a decode finds no weight there either."""


class Clock(Protocol):
    def measure(self, runs: Sequence[Callable[[], object]], round_count: int) -> list[list[float]]:
        """Times each of `runs` once per round, one after the other. Returns seconds by run and round."""
        ...


class EventClock:
    """Clock of a CUDA device: events around replays of each computation, captured as a graph where it can be. A host
    launches a kernel of ten microseconds more slowly than a card computes it."""

    def __init__(self) -> None:
        self._flushed = torch.empty(FLUSHED_BYTES, dtype=torch.int8, device="cuda")

    def measure(self, runs: Sequence[Callable[[], object]], round_count: int) -> list[list[float]]:
        for run in runs:
            for _ in range(WARM_UPS):
                run()
        replays = [_captured(run) for run in runs]
        pairs = [[self._timed(replay) for replay in replays] for _ in range(round_count)]
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


def _captured(run: Callable[[], object]) -> Callable[[], object]:
    """Returns a replay of a computation, or the computation itself if it waits for the device."""
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            run()
    except RuntimeError:
        torch.cuda.synchronize()
        return run
    return graph.replay


class HostClock:
    """Clock of computations that are over when they return."""

    def measure(self, runs: Sequence[Callable[[], object]], round_count: int) -> list[list[float]]:
        rounds = [[_seconds(run) for run in runs] for _ in range(round_count)]
        return [list(own) for own in zip(*rounds, strict=True)]


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started
