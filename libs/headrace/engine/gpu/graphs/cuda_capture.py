"""Computations on a GPU, captured as CUDA graphs."""

import torch

from headrace.engine.gpu.graphs.step_capture import Computation


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
