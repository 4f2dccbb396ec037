"""Problems that no kernel takes are told apart, with the reason."""

from dataclasses import replace

import pytest
import torch

from headrace.engine.checkpoints.weights import round_to_nearest
from headrace.engine.checkpoints.weights.loaded_weight import place
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix
from headrace.engine.triton import kernel_registry
from headrace.engine.triton.kernel_registry import ProductProblem, can_implement

PROBLEM = ProductProblem(4, 128, 4096, torch.bfloat16, torch.device("cpu"))


@pytest.fixture
def interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(kernel_registry, "_is_installed", lambda: True)


@pytest.mark.usefixtures("interpreter")
def test_what_the_kernels_have_is_taken() -> None:
    for change in ({}, {"bits": 8}, {"group_size": 32}, {"group_size": 100, "in_size": 100}, {"dtype": torch.float16}):
        assert can_implement(replace(PROBLEM, **change)) == (True, "ok")


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize(
    ("change", "reason"),
    [({"bits": 3}, "codes of 3 bits"), ({"group_size": 48}, "groups of 48"), ({"dtype": torch.float64}, "float64")],
)
def test_what_they_lack_is_told(change: dict[str, object], reason: str) -> None:
    fits, said = can_implement(replace(PROBLEM, **change))  # type: ignore[arg-type]
    assert not fits
    assert reason in said


def test_a_cpu_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(kernel_registry, "_is_installed", lambda: True)
    assert can_implement(PROBLEM) == (False, "device cpu is no GPU")


def test_without_triton_nothing_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_registry, "_is_installed", lambda: False)
    assert can_implement(PROBLEM)[1] == "triton is not installed: install headrace[gpu]"


def test_an_old_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(kernel_registry, "_is_installed", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 5))
    assert "sm_75" in can_implement(replace(PROBLEM, device=torch.device("cuda")))[1]


def test_a_weight_stays_packed_where_a_kernel_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device has no memory, but is none of a CPU's."""
    device, matrix = torch.device("meta"), round_to_nearest.quantize(torch.randn(8, 64), 4, 32, symmetric=False)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert isinstance(place(matrix, torch.bfloat16, device), torch.Tensor)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(kernel_registry, "_is_installed", lambda: True)
    placed = place(matrix, torch.bfloat16, device)
    assert isinstance(placed, QuantizedMatrix)
    assert placed.codes.device == device
