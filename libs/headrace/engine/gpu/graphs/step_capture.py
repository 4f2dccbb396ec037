"""Capture of a computation in static memory, to be run again as one unit."""

from collections.abc import Callable
from typing import Protocol

import torch

Computation = Callable[[], None]
"""Reads and writes memory that stays where it is, and neither waits for the device nor allocates what outlives it."""


class StepCapture(Protocol):
    """A way to run the same computation again and again."""

    def capture(self, compute: Computation) -> Computation:
        """Returns what runs `compute` again, with what its memory holds then."""
        ...


class HostCapture:
    """Runs a computation as it is: a CPU launches nothing."""

    def capture(self, compute: Computation) -> Computation:
        return compute


class CudaCapture:
    """Captures CUDA graphs that share one pool of memory: only one of them runs at a time."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()

    def capture(self, compute: Computation) -> Computation:
        """Captures a computation after it has run once, which compiles its kernels: a capture allows no compiling.
        Other threads may allocate meanwhile."""
        with torch.cuda.device(self._device):
            stream: torch.cuda.Stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream(self._device))
            with torch.cuda.stream(stream):
                compute()
            torch.cuda.current_stream(self._device).wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool, stream=stream, capture_error_mode="thread_local"):
                compute()
        return graph.replay
