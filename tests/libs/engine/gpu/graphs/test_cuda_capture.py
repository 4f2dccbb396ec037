"""A capture is of one thread on one device, and all captures share a pool. torch.cuda is a recorder here: no card."""

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from headrace.engine.gpu.graphs import cuda_capture
from headrace.engine.gpu.graphs.cuda_capture import CudaCapture

DEVICE = torch.device("cuda:1")


class RecordedCuda:
    """Notes what is entered and run, in order."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.pools: list[object] = []
        self.modes: list[str] = []
        self.CUDAGraph = lambda: SimpleNamespace(replay=lambda: self.notes.append("replay"))
        self.graph_pool_handle = object
        self.Stream = lambda device: SimpleNamespace(wait_stream=lambda _: None, device=device)
        self.current_stream = self.Stream

    @contextmanager
    def device(self, device: torch.device) -> Any:
        self.notes.append(f"enter {device}")
        yield
        self.notes.append(f"leave {device}")

    @contextmanager
    def stream(self, stream: Any) -> Any:
        self.notes.append(f"stream {stream.device}")
        yield

    @contextmanager
    def graph(self, _graph: object, *, pool: object, stream: Any, capture_error_mode: str) -> Any:
        self.notes.append(f"capture {stream.device}")
        self.pools.append(pool)
        self.modes.append(capture_error_mode)
        yield


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> RecordedCuda:
    recorded = RecordedCuda()
    monkeypatch.setattr(cuda_capture, "torch", SimpleNamespace(cuda=recorded))
    return recorded


def test_a_computation_has_run_once_before_it_is_captured_on_its_device(cuda: RecordedCuda) -> None:
    replay = CudaCapture(DEVICE).capture(lambda: cuda.notes.append("compute"))
    replay()
    expected = ["enter cuda:1", "stream cuda:1", "compute", "capture cuda:1", "compute", "leave cuda:1", "replay"]
    assert cuda.notes == expected


def test_captures_share_a_pool_and_let_other_threads_allocate(cuda: RecordedCuda) -> None:
    capture = CudaCapture(DEVICE)
    for _ in range(2):
        capture.capture(lambda: None)
    assert cuda.pools[0] is cuda.pools[1]
    assert cuda.modes == ["thread_local", "thread_local"]
