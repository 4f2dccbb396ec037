"""Norm and gate of rows: near the oracle, and each row by itself."""

import pytest
import torch
from tests.libs.engine.triton.random_weights import make_inputs
from torch.nn import functional

from headrace.engine.triton.gated_silu import gate_silu
from headrace.engine.triton.residual_norm import normalize

# The interpreter cuts fp32 to bf16 instead of rounding it.
ERRORS = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
SIZES = (1, 7, 64, 331, 1100)


@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("size", SIZES)
def test_a_norm_follows_the_addition(size: int, dtype: torch.dtype) -> None:
    inputs, residual, weight = make_inputs(5, size, dtype), make_inputs(6, size, dtype)[:5], make_inputs(1, size)[0]
    plain, added = normalize(inputs, weight, 1e-5), residual.clone()
    found = normalize(inputs, weight, 1e-5, added)
    limit = ERRORS[dtype]
    assert torch.allclose(added.double(), inputs.double() + residual.double(), rtol=limit, atol=limit)
    for numbers, result in ((inputs, plain), (added, found)):
        expected = functional.rms_norm(numbers.double(), (size,), weight.double(), 1e-5)
        assert result.dtype == dtype
        assert torch.allclose(result.double(), expected, rtol=limit, atol=limit)
    assert torch.equal(normalize(inputs[2:4], weight, 1e-5), plain[2:4])


@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("size", SIZES)
def test_a_gate_is_silu_times_the_other_half(size: int, dtype: torch.dtype) -> None:
    inputs = make_inputs(3, 2 * size, dtype) * 4
    found, exact = gate_silu(inputs), inputs.double()
    expected = functional.silu(exact[:, :size]) * exact[:, size:]
    assert torch.allclose(found.double(), expected, rtol=ERRORS[dtype], atol=ERRORS[dtype])
    assert torch.equal(gate_silu(inputs[1:2]), found[1:2])
