"""Products with quantized weights: near the oracle, and the same bits in any batch of one kernel."""

import pytest
import torch
from tests.libs.engine.triton.device import FP32_ERROR
from tests.libs.engine.triton.interpreter import run_backwards
from tests.libs.engine.triton.random_weights import make_inputs, make_weight

from headrace.engine.checkpoints.weights.code_numbers import code_numbers
from headrace.engine.triton.products.packed_codes import PackedCodes
from headrace.engine.triton.products.quantized_product import ProductKernel, choose_kernel, multiply
from headrace.engine.triton.products.tile_choice import (
    CHOICES,
    MAX_SPLITS,
    MIN_SPLIT,
    MULTIPROCESSORS,
    USUAL,
    TileChoice,
)

# The interpreter cuts fp32 to bf16 instead of rounding it, so an error may be twice the usual.
ERRORS = {torch.float32: FP32_ERROR, torch.float16: 1e-3, torch.bfloat16: 1.6e-2}
THOROUGH = [
    pytest.param(shape, marks=pytest.mark.thorough, id=str(shape))
    for shape in ((33, 160, 32), (65, 256, 128), (1, 192, 64), (64, 200, 64))
]
FUSED = [kernel for kernel in ProductKernel if kernel is not ProductKernel.DEQUANTIZED]
SHAPES = [(70, 96, 32), (21, 144, 16), (40, 100, 100), (17, 31, 64), *THOROUGH]
"""Outputs, inputs and group size: odd sizes, a short last group, and one group for each row."""


@pytest.mark.parametrize("kernel", ProductKernel)
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_is_the_product_with_the_dequantized_weight(
    kernel: ProductKernel, bits: int, shape: tuple[int, int, int]
) -> None:
    weight = make_weight(*shape[:2], bits, shape[2])
    for dtype, error in ERRORS.items():
        for row_count in (1, 3, 17):
            inputs = make_inputs(row_count, shape[1], dtype)
            expected = inputs.double() @ weight.exact.T
            found = multiply(weight.packed, inputs, kernel=kernel)
            assert found.dtype == dtype
            assert (found.double() - expected).abs().max() <= error * expected.abs().max()


@pytest.mark.parametrize("kernel", ProductKernel)
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("shape", [(40, 96, 16), (70, 96, 32), (17, 200, 128)], ids=str)
def test_floating_point_codes_are_as_exact(kernel: ProductKernel, bits: int, shape: tuple[int, int, int]) -> None:
    weight = make_weight(*shape[:2], bits, shape[2], is_float=True)
    for dtype, error in ERRORS.items():
        inputs = make_inputs(3, shape[1], dtype)
        expected = inputs.double() @ weight.exact.T
        found = multiply(weight.packed, inputs, kernel=kernel)
        assert (found.double() - expected).abs().max() <= error * expected.abs().max()


@pytest.mark.parametrize("kernel", ProductKernel)
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("shape", [(40, 96, 16), (70, 96, 32)], ids=str)
def test_offsets_are_added_to_each_weight(kernel: ProductKernel, bits: int, shape: tuple[int, int, int]) -> None:
    weight = make_weight(*shape[:2], bits, shape[2], has_offsets=True)
    for dtype, error in ERRORS.items():
        inputs = make_inputs(3, shape[1], dtype)
        expected = inputs.double() @ weight.exact.T
        found = multiply(weight.packed, inputs, kernel=kernel)
        assert (found.double() - expected).abs().max() <= error * expected.abs().max()


@pytest.mark.parametrize("kernel", FUSED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("bits", [4, 8])
def test_every_floating_point_code_is_its_number(kernel: ProductKernel, dtype: torch.dtype, bits: int) -> None:
    """Also those that are subnormal, by rows that each pick one of them."""
    numbers = torch.from_numpy(code_numbers(bits, is_float=True))
    codes = torch.arange(1 << bits, dtype=torch.uint8)
    codes[numbers.isnan()] = 0
    weight = PackedCodes.of(codes[None], torch.ones(1, 1), torch.zeros(1, 1), bits, len(codes), is_float=True)
    found = multiply(weight, torch.eye(len(codes), dtype=dtype), kernel=kernel)
    assert torch.equal(found[:, 0].float(), numbers.nan_to_num())


@pytest.mark.parametrize("kernel", ProductKernel)
def test_the_order_of_inputs_a_bias_and_a_residual_are_heeded(kernel: ProductKernel) -> None:
    weight = make_weight(45, 128, 4, 32, symmetric=True, has_order=True)
    inputs, bias, residual = make_inputs(5, 128), make_inputs(1, 45)[0], make_inputs(5, 45)
    expected = inputs.double() @ weight.exact.T + bias + residual
    found = multiply(weight.packed, inputs, bias, residual, kernel)
    assert torch.allclose(found.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kernel", FUSED)
@pytest.mark.parametrize("dtype", [torch.bfloat16, pytest.param(torch.float32, marks=pytest.mark.thorough)])
def test_a_row_has_the_same_bits_in_any_batch_of_one_kernel(kernel: ProductKernel, dtype: torch.dtype) -> None:
    weight = make_weight(70, 2 * MIN_SPLIT + 36, 4, 32).packed
    assert USUAL.count_splits(weight.in_size, weight.out_size, USUAL.narrow, MULTIPROCESSORS) == 2
    inputs = make_inputs(19, weight.in_size, dtype)
    whole = multiply(weight, inputs, kernel=kernel)
    for start, end in ((0, 1), (3, 4), (2, 19), (18, 19), (0, 16)):
        assert torch.equal(multiply(weight, inputs[start:end], kernel=kernel), whole[start:end])


@pytest.mark.parametrize("kernel", ProductKernel)
def test_programs_may_run_in_any_order(kernel: ProductKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    weight, inputs = make_weight(130, 2 * MIN_SPLIT, 4, 128).packed, make_inputs(18, 2 * MIN_SPLIT)
    expected = multiply(weight, inputs, kernel=kernel)
    run_backwards(monkeypatch)
    assert torch.equal(multiply(weight, inputs, kernel=kernel), expected)


def test_what_is_not_a_number_stays_in_its_row() -> None:
    weight, inputs = make_weight(20, 100, 4, 100).packed, make_inputs(6, 100)
    inputs[2, 7] = torch.nan
    for kernel in ProductKernel:
        found = multiply(weight, inputs, kernel=kernel)
        assert found[2].isnan().all()
        assert torch.isfinite(found[[0, 1, 3, 4, 5]]).all()


def test_no_rows_have_no_product() -> None:
    assert multiply(make_weight(20, 64, 4, 32).packed, torch.empty(0, 64)).shape == (0, 20)


def test_the_kernel_depends_on_rows_alone_and_the_splits_on_the_weight_and_the_device() -> None:
    chosen = [choose_kernel(count) for count in (1, 16, 17, 32, 33, 4096)]
    assert [kernel.value for kernel in chosen] == ["narrow", "narrow", "middle", "middle", "wide", "wide"]
    limited = [choose_kernel(count, 255) for count in (4, 20, 255, 256)]
    assert [kernel.value for kernel in limited] == ["narrow", "middle", "wide", "dequantized"]
    counts = [USUAL.count_splits(*sizes, USUAL.narrow, 108) for sizes in ((4096, 4096), (65536, 64), (4096, 128256))]
    assert counts == [8, MAX_SPLITS, 1]
    assert USUAL.count_splits(4096, 28672, USUAL.narrow, 108) == 1
    assert USUAL.count_splits(4096, 28672, USUAL.narrow, 132) == 1
    assert USUAL.count_splits(4096, 28672, USUAL.narrow, 180) == 2


@pytest.mark.parametrize("tiles", [USUAL, *CHOICES.values()])
def test_tiles_serve_their_rows_at_once(tiles: TileChoice) -> None:
    """No weight is dequantized twice for rows that fit one tile."""
    assert tiles.narrow.row_count >= tiles.max_narrow_rows
    assert tiles.middle.row_count >= tiles.max_middle_rows
    assert tiles.wide.row_count >= 64
