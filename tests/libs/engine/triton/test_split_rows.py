"""Rows whose sums are left to the next kernel: the bits are those of a sum that is written first."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.libs.engine.triton.device import DEVICE
from tests.libs.engine.triton.random_weights import make_inputs, make_weight
from torch import Tensor

from headrace.engine.triton.attention.kv_pages import KvPages
from headrace.engine.triton.attention.rotary_store import RotaryHeads, rotate_and_store
from headrace.engine.triton.gated_activation import gate_rows, sum_and_gate
from headrace.engine.triton.products import quantized_matmul, quantized_product
from headrace.engine.triton.products.quantized_product import ProductKernel, gated_product, multiply
from headrace.engine.triton.residual_norm import add_and_normalize, normalize
from headrace.engine.triton.split_sum import SplitRows, sum_splits

DTYPES = (torch.float32, torch.bfloat16)
ACTIVATIONS = ("silu", "gelu", "gelu_tanh", "relu", "clamped_swish")
ROWS = 3


def make_rows(split_count: int, size: int, dtype: torch.dtype, *, has_bias: bool) -> SplitRows:
    partials = torch.stack([make_inputs(ROWS + split, size)[:ROWS] for split in range(split_count)])
    bias = make_inputs(9, size)[0].to(DEVICE, dtype) if has_bias else None
    return SplitRows(partials.to(DEVICE), bias, dtype)


def make_residual(size: int, dtype: torch.dtype) -> Tensor:
    return make_inputs(7, size, dtype)[:ROWS].to(DEVICE)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("split_count", "has_bias"), [(1, False), (3, True), (8, False)])
def test_a_norm_adds_first(split_count: int, has_bias: bool, dtype: torch.dtype) -> None:
    rows, residual = make_rows(split_count, 70, dtype, has_bias=has_bias), make_residual(70, dtype)
    weight = make_inputs(2, 70)[0].to(DEVICE)
    expected = sum_splits(rows, residual)
    sums, found = add_and_normalize(rows, residual, weight, 1e-5)
    exact = rows.partials.double().sum(0) + residual.double() + (0 if rows.bias is None else rows.bias.double())
    assert torch.allclose(sums.double(), exact, rtol=1e-2, atol=2e-2)
    assert torch.equal(sums, expected)
    assert torch.equal(found, normalize(expected, weight, 1e-5))
    assert sums.dtype == found.dtype == dtype


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_gate_adds_first(activation: str, dtype: torch.dtype) -> None:
    rows = make_rows(4, 90, dtype, has_bias=True)
    assert torch.equal(sum_and_gate(rows, activation), gate_rows(sum_splits(rows, None), activation))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("has_norms", [False, True])
def test_heads_are_added_before_they_are_turned_and_stored(has_norms: bool, dtype: torch.dtype) -> None:
    rows = make_rows(2, 7 * 24, dtype, has_bias=True)
    angles = torch.rand(9, 10, generator=torch.Generator().manual_seed(2)).to(DEVICE)
    norms = torch.rand(2, 24, generator=torch.Generator().manual_seed(3)).to(DEVICE) if has_norms else None
    heads = RotaryHeads(3, angles.cos(), angles.sin(), norms, 1e-5)
    positions, slots = (torch.tensor(each, dtype=torch.int32, device=DEVICE) for each in ((0, 8, 3), (47, 0, 5)))
    found = []
    for projected in (rows, sum_splits(rows, None)):
        pages = KvPages(torch.zeros(2, 2, 3, 16, 24, dtype=dtype, device=DEVICE))
        queries = rotate_and_store(projected, heads, pages, positions, slots)
        assert queries.dtype == dtype
        found.append((queries, pages.states))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])
    assert found[0][1].count_nonzero()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("multiprocessors", "is_whole"), [(1, True), (108, False)])
@pytest.mark.parametrize(("row_count", "kernel"), [(1, ProductKernel.NARROW), (35, ProductKernel.WIDE)])
def test_gates_are_activated_by_the_product(
    row_count: int,
    kernel: ProductKernel,
    multiprocessors: int,
    is_whole: bool,
    dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In tiles with gates in one half and factors in the other, of which the last is not full; and where the inputs
    are split, by the sum."""
    monkeypatch.setattr(quantized_product, "count_multiprocessors", lambda _: multiprocessors)
    launched: list[Tensor] = []
    product = quantized_matmul.multiply_and_gate

    def note(*operands: Any) -> Tensor:
        launched.append(product(*operands))
        return launched[-1]

    monkeypatch.setattr(quantized_product, "multiply_and_gate", note)
    made = make_weight(2 * 100, 1024, 4, 128)
    parts = {name: getattr(made.packed, name).to(DEVICE) for name in ("words", "scales", "zeros")}
    weight, inputs = replace(made.packed, **parts), make_inputs(row_count, 1024, dtype).to(DEVICE)
    for activation in ACTIVATIONS:
        found = gated_product(weight, inputs, activation, kernel)
        assert torch.equal(found, gate_rows(multiply(weight, inputs, kernel=kernel), activation)), activation
    assert bool(launched) is is_whole
    assert found.shape == (row_count, 100)
