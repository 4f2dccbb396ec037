"""Our own quantizers: what they write is what they computed, and GPTQ loses less than rounding."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.engine.checkpoints.facts.scheme import QuantizationScheme
from headrace.engine.checkpoints.formats import awq, gptq
from headrace.engine.checkpoints.formats.bit_packing import unpack
from headrace.engine.checkpoints.formats.word_packing import pack
from headrace.engine.checkpoints.weights import round_to_nearest
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix
from headrace.quantization import gptq_solver
from headrace.quantization.gptq_solver import InputMoments
from headrace.quantization.writer import awq_tensors, gptq_tensors

OUT, IN, GROUP = 64, 256, 64


class Tensors(dict[str, Tensor]):
    def array(self, name: str) -> NDArray[Any]:
        tensor = self[name]
        return (tensor.float() if tensor.is_floating_point() else tensor).numpy()


def weight_and_inputs() -> tuple[Tensor, Tensor]:
    """A weight, and inputs that move together, as activations do."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(OUT, IN, generator=generator)
    mixing = torch.randn(24, IN, generator=generator)
    inputs = torch.randn(2000, 24, generator=generator) @ mixing + 0.1 * torch.randn(2000, IN, generator=generator)
    return weight, inputs


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("count", [32, 96])
def test_packing_is_undone_by_unpacking(bits: int, count: int) -> None:
    values = torch.randint(0, 1 << bits, (5, count)).to(torch.uint8)
    assert torch.equal(torch.from_numpy(unpack(pack(values, bits).numpy(), bits, count)), values)


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("symmetric", [True, False])
def test_rounding_is_off_by_half_a_step_at_most(bits: int, symmetric: bool) -> None:
    weight, _ = weight_and_inputs()
    matrix = round_to_nearest.quantize(weight, bits, GROUP, symmetric)
    steps = matrix.scales.repeat_interleave(GROUP, 1)
    excess = (matrix.dequantize() - weight).abs() / steps
    # Half a step, and a little where the fp16 scale was rounded down or the symmetric grid lacks its last code.
    assert excess.max().item() <= (1.01 if symmetric else 0.6)


@pytest.mark.parametrize("bits", [3, 4])
def test_gptq_loses_less_of_the_outputs_than_rounding(bits: int) -> None:
    weight, inputs = weight_and_inputs()
    moments = InputMoments.empty(IN)
    for batch in inputs.split(500):
        moments.observe(batch)
    assert moments.row_count == 2000

    def loss(matrix: QuantizedMatrix) -> float:
        return float(((matrix.dequantize() - weight) @ inputs.T).norm())

    rounded = loss(round_to_nearest.quantize(weight, bits, GROUP, symmetric=False))
    solved = loss(gptq_solver.quantize(weight, moments, bits, GROUP, symmetric=False))
    assert solved < 0.6 * rounded


def test_without_correlations_gptq_is_rounding() -> None:
    weight, _ = weight_and_inputs()
    moments = InputMoments(torch.eye(IN, dtype=torch.float64), 1)
    solved = gptq_solver.quantize(weight, moments, 4, GROUP, symmetric=False)
    assert torch.equal(solved.codes, round_to_nearest.quantize(weight, 4, GROUP, symmetric=False).codes)


def test_inputs_that_never_occurred_do_not_break_it() -> None:
    weight, inputs = weight_and_inputs()
    inputs[:, 10:20] = 0
    moments = InputMoments.empty(IN)
    moments.observe(inputs)
    assert torch.isfinite(gptq_solver.quantize(weight, moments, 4, GROUP, False).dequantize()).all()


@pytest.mark.parametrize(
    ("bits", "symmetric"), [(2, False), (3, False), (3, True), (4, False), (4, True), (8, False), (8, True)]
)
def test_what_is_written_as_gptq_is_read_back(bits: int, symmetric: bool) -> None:
    weight, _ = weight_and_inputs()
    matrix = round_to_nearest.quantize(weight, bits, GROUP, symmetric)
    scheme = QuantizationScheme("gptq", bits, GROUP, symmetric, zero_offset=1)
    back = gptq.read(Tensors(gptq_tensors("m", matrix)), "m", OUT, IN, scheme)
    assert torch.equal(torch.from_numpy(back.dequantize()), matrix.dequantize())


def test_what_is_written_as_awq_is_read_back() -> None:
    weight, _ = weight_and_inputs()
    matrix = round_to_nearest.quantize(weight, 4, GROUP, symmetric=False)
    scheme = QuantizationScheme("awq", 4, GROUP, symmetric=False)
    back = awq.read(Tensors(awq_tensors("m", matrix)), "m", OUT, IN, scheme)
    assert torch.equal(torch.from_numpy(back.dequantize()), matrix.dequantize())


@pytest.mark.parametrize("make", [lambda: torch.zeros(OUT, IN), lambda: torch.full((OUT, IN), 1e-12)])
def test_weights_without_range_stay_finite(make: Callable[[], Tensor]) -> None:
    for symmetric in (True, False):
        matrix = round_to_nearest.quantize(make(), 4, GROUP, symmetric)
        assert torch.isfinite(matrix.dequantize()).all()
        assert matrix.dequantize().abs().max().item() < 1e-3


@pytest.mark.parametrize("symmetric", [False, True])
def test_rows_are_rounded_alike_in_any_number_of_parts(symmetric: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    weight = torch.randn(20, 64, generator=torch.Generator().manual_seed(1)).bfloat16()
    whole = round_to_nearest.quantize(weight, 4, 32, symmetric)
    monkeypatch.setattr(round_to_nearest, "ROWS", 7)
    parts = round_to_nearest.quantize(weight, 4, 32, symmetric)
    for name in ("codes", "scales", "zeros"):
        assert torch.equal(getattr(parts, name), getattr(whole, name))
