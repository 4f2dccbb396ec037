"""Problems that no kernel takes are told apart, with the reason."""

from dataclasses import replace

import pytest
import torch
from tests.libs.engine.engine_running import engine_config

from headrace.demo_model import CHECKPOINT
from headrace.engine.checkpoints.packing.loaded_weight import place
from headrace.engine.checkpoints.weights import round_to_nearest
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix
from headrace.engine.gpu.operators.gpu_operators import choose_gpu_operators
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.triton import kernel_registry
from headrace.engine.triton.attention_problem import AttentionProblem
from headrace.engine.triton.kernel_registry import ProductProblem, can_implement, max_tiled_rows
from headrace.errors.tree import ConfigError

ATTENTION = AttentionProblem(32, 8, 128, torch.bfloat16, torch.bfloat16, torch.device("cpu"))
PROBLEM = ProductProblem(4, 128, 4096, torch.bfloat16, torch.device("cpu"))


@pytest.fixture
def interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(kernel_registry, "_is_installed", lambda: True)


@pytest.mark.usefixtures("interpreter")
def test_what_the_kernels_have_is_taken() -> None:
    for change in (
        {},
        {"bits": 8},
        {"group_size": 32},
        {"group_size": 16},
        {"group_size": 100, "in_size": 100},
        {"dtype": torch.float16},
    ):
        assert can_implement(replace(PROBLEM, **change)) == (True, "ok")


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize(
    ("change", "reason"),
    [({"bits": 3}, "codes of 3 bits"), ({"group_size": 24}, "groups of 24"), ({"dtype": torch.float64}, "float64")],
)
def test_what_they_lack_is_told(change: dict[str, object], reason: str) -> None:
    fits, said = can_implement(replace(PROBLEM, **change))  # type: ignore[arg-type]
    assert not fits
    assert reason in said


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"head_size": 288}, "heads of 288 elements"),
        ({"head_count": 71, "kv_head_count": 1}, "71 query heads for 1 KV heads"),
        ({"states": torch.uint8}, "keys and values of torch.uint8"),
        ({"dtype": torch.float64}, "float64"),
    ],
)
def test_attention_that_they_lack_is_told(change: dict[str, object], reason: str) -> None:
    assert can_implement(ATTENTION) == (True, "ok")
    fits, said = can_implement(replace(ATTENTION, **change))  # type: ignore[arg-type]
    assert not fits
    assert reason in said


def test_fp8_is_refused_by_gpus_that_cannot_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(kernel_registry, "_is_installed", lambda: True)
    problem = replace(ATTENTION, states=torch.float8_e4m3fn, device=torch.device("cuda"))
    for capability, fits in (((8, 0), False), ((8, 9), True), ((9, 0), True)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _, found=capability: found)
        assert can_implement(problem)[0] is fits
    assert can_implement(replace(problem, states=torch.int8))[0]


def test_settings_that_insist_are_told_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(kernel_registry, "_is_installed", lambda: True)
    with pytest.raises(ConfigError, match=r"kernels is 'triton', but device cpu is no GPU; .*TRITON_INTERPRET=1"):
        choose_gpu_operators(torch.device("cpu"), "triton")


def test_keys_and_values_are_only_kept_as_asked_where_a_kernel_can() -> None:
    config = engine_config(kernels="torch", kv_precision="int8")
    with pytest.raises(ConfigError, match=r"kv_precision is 'int8'.*, in float32, which auto means.*for torch"):
        load_text_engine(CHECKPOINT, config)


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


def test_the_rows_from_which_weights_are_dequantized_are_those_of_the_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    for capability, most in (((8, 0), 255), ((9, 0), 320), ((12, 0), None)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _, found=capability: found)
        assert max_tiled_rows(torch.device("cuda")) == most
    assert max_tiled_rows(torch.device("cpu")) is None
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert max_tiled_rows(torch.device("cuda")) is None


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
