"""Norm and gate of rows: near the oracle, and each row by itself."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from tests.libs.engine.triton.device import FP32_ERROR
from tests.libs.engine.triton.random_weights import make_inputs
from torch import Tensor
from torch.nn import functional

from headrace.engine.triton.gated_activation import gate_rows
from headrace.engine.triton.residual_norm import normalize

# The interpreter cuts fp32 to bf16 instead of rounding it.
ERRORS = {torch.float32: FP32_ERROR, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
SIZES = (1, 7, 64, 331, 1100)


@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("size", SIZES)
def test_a_norm_is_that_of_each_row(size: int, dtype: torch.dtype) -> None:
    inputs, weight = make_inputs(5, size, dtype), make_inputs(1, size)[0]
    found, limit = normalize(inputs, weight, 1e-5), ERRORS[dtype]
    expected = functional.rms_norm(inputs.double(), (size,), weight.double(), 1e-5)
    assert found.dtype == dtype
    assert torch.allclose(found.double(), expected, rtol=limit, atol=limit)
    assert torch.equal(normalize(inputs[2:4], weight, 1e-5), found[2:4])


@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("size", SIZES)
def test_a_gate_is_one_half_activated_times_the_other(size: int, dtype: torch.dtype) -> None:
    inputs = make_inputs(3, 2 * size, dtype) * 4
    exact = inputs.double()
    activated: dict[str, Callable[[Tensor], Tensor]] = {
        "silu": functional.silu,
        "gelu": functional.gelu,
        "gelu_tanh": partial(functional.gelu, approximate="tanh"),
        "relu": functional.relu,
    }
    for activation, function in activated.items():
        found, expected = gate_rows(inputs, activation), function(exact[:, :size]) * exact[:, size:]
        assert found.dtype == dtype
        assert torch.allclose(found.double(), expected, rtol=ERRORS[dtype], atol=ERRORS[dtype]), activation
        assert torch.equal(gate_rows(inputs[1:2], activation), found[1:2])


@pytest.mark.parametrize("dtype", ERRORS)
def test_gates_and_factors_are_clamped(dtype: torch.dtype) -> None:
    inputs = make_inputs(3, 2 * 331, dtype) * 8
    gates, factors = inputs.double().chunk(2, dim=-1)
    low = gates.clamp(max=7)
    expected = low * torch.sigmoid(1.702 * low) * (factors.clamp(-7, 7) + 1)
    found = gate_rows(inputs, "clamped_swish")
    assert (gates > 7).any()
    assert (factors.abs() > 7).any()
    assert torch.allclose(found.double(), expected, rtol=ERRORS[dtype], atol=ERRORS[dtype])
