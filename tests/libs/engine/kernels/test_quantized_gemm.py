"""The packed product is the exact product, and a row's bits depend on nothing but the row."""

import pytest
import torch

from headrace.engine.kernels.cpu.library import load_kernels
from headrace.engine.kernels.cpu.quantized_gemm import PackedMatrix, can_run
from headrace.engine.quantization.quantized_matrix import QuantizedMatrix

pytestmark = pytest.mark.skipif(load_kernels() is None, reason="no C++ compiler when Headrace was installed")


def random_matrix(bits: int, out_size: int, in_size: int, group: int, ordered: bool = True) -> QuantizedMatrix:
    generator = torch.Generator().manual_seed(bits * 1000 + out_size + in_size + group)
    codes = torch.randint(0, 1 << bits, (out_size, in_size), generator=generator).to(torch.uint8)
    zeros = torch.randint(0, 1 << bits, (out_size, in_size // group), generator=generator).to(torch.uint8)
    scales = torch.rand(out_size, in_size // group, generator=generator) * 0.1 + 0.001
    order = None if ordered else torch.randperm(in_size, generator=generator)
    return QuantizedMatrix(codes, scales, zeros, bits, group, order)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("out_size", "in_size", "group"), [(1, 32, 32), (7, 96, 32), (33, 256, 128), (300, 384, 384)])
@pytest.mark.parametrize("ordered", [True, False])
def test_it_is_the_product_with_the_dequantised_weight(
    bits: int, out_size: int, in_size: int, group: int, ordered: bool
) -> None:
    matrix = random_matrix(bits, out_size, in_size, group, ordered)
    inputs = torch.randn(19, in_size)
    bias, residual = torch.randn(out_size), torch.randn(19, out_size)
    found = PackedMatrix(matrix).multiply(inputs, bias, residual)
    expected = inputs.double() @ matrix.dequantize().double().T + bias + residual
    assert ((found - expected).norm() / expected.norm()).item() < 1e-5


@pytest.mark.parametrize("bits", [4, 8])
def test_bits_do_not_depend_on_rows_threads_or_instructions(bits: int) -> None:
    matrix = random_matrix(bits, 517, 256, 64)
    inputs = torch.randn(70, 256)
    whole = PackedMatrix(matrix).multiply(inputs)
    for rows in (1, 2, 3, 4, 5, 8, 9, 16, 31, 64):
        assert torch.equal(PackedMatrix(matrix).multiply(inputs[:rows]), whole[:rows])
    assert torch.equal(PackedMatrix(matrix, vectors=False).multiply(inputs), whole)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert torch.equal(PackedMatrix(matrix).multiply(inputs), whole)
    finally:
        torch.set_num_threads(threads)


def test_four_bits_take_half_a_byte() -> None:
    packed = PackedMatrix(random_matrix(4, 256, 1024, 128))
    assert packed.byte_count == 256 * 1024 // 2 + 2 * 4 * 256 * 8


@pytest.mark.parametrize(("bits", "in_size", "group", "reason"), [(3, 64, 32, "3 bits"), (4, 48, 16, "groups of 16")])
def test_what_it_cannot_run_it_says(bits: int, in_size: int, group: int, reason: str) -> None:
    possible, why = can_run(random_matrix(bits, 8, in_size, group))
    assert not possible
    assert reason in why
