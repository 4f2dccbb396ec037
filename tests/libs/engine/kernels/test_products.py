"""Products with packed weights: right, and the same bits on every instruction set, in any thread, beside any rows."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.libs.engine.needed_kernels import needs_kernels
from torch import Tensor

from headrace.engine.checkpoints.packing.packable import can_pack
from headrace.engine.checkpoints.packing.tensor_packing import pack, stored
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix
from headrace.engine.checkpoints.weights.tensor_source import Array, take_scales
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import available
from headrace.engine.kernels.packed_weight import PackedWeight
from headrace.engine.kernels.storage import Storage

pytestmark = needs_kernels


class Tensors(dict[str, Array]):
    """A checkpoint in memory."""

    def array(self, name: str) -> Array:
        return self[name]


ROW_COUNTS = (*range(1, 35), *range(47, 67), *range(95, 98), *range(127, 131))
"""Around each number at which rows are taken in other ways."""
SIZES = [(1, 32, 32), (7, 96, 32), (33, 256, 128), (300, 384, 384), (48, 64, 64)]


def random_matrix(bits: int, out_size: int, in_size: int, group: int, ordered: bool = True) -> QuantizedMatrix:
    generator = torch.Generator().manual_seed(bits * 1000 + out_size + in_size + group)
    codes = torch.randint(0, 1 << bits, (out_size, in_size), generator=generator).to(torch.uint8)
    zeros = torch.randint(0, 1 << bits, (out_size, in_size // group), generator=generator).to(torch.uint8)
    scales = (torch.rand(out_size, in_size // group, generator=generator) * 0.1 + 0.001).half().float()
    order = None if ordered else torch.randperm(in_size, generator=generator)
    return QuantizedMatrix(codes, scales, zeros, bits, group, order)


def product(
    context: KernelContext, weight: PackedWeight, inputs: Tensor, residual: Tensor | None = None, *, exact: bool = False
) -> Tensor:
    added = None if residual is None else residual.numpy()
    return torch.from_numpy(context.product(weight, inputs.numpy(), added, exact=exact))


def relative_error(found: Tensor, expected: Tensor) -> float:
    return float((found.double() - expected).norm() / expected.norm())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("out_size", "in_size", "group"), SIZES)
def test_plain_weights(dtype: torch.dtype, out_size: int, in_size: int, group: int) -> None:
    weight, inputs = torch.randn(out_size, in_size).to(dtype), torch.randn(19, in_size)
    bias, residual = torch.randn(out_size), torch.randn(19, out_size)
    found = product(KernelContext(2), pack(weight, bias), inputs, residual)
    assert relative_error(found, inputs.double() @ weight.double().T + bias + residual) < 1e-6


@pytest.mark.parametrize(("exact", "bound"), [(True, 1e-6), (False, 1e-2)])
@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize(("out_size", "in_size", "group"), SIZES)
@pytest.mark.parametrize("ordered", [True, False])
def test_codes(bits: int, out_size: int, in_size: int, group: int, ordered: bool, exact: bool, bound: float) -> None:
    """Quantized inputs cost half a percent of the length of a random result, as one would expect of 8 bits."""
    torch.manual_seed(0)
    matrix = random_matrix(bits, out_size, in_size, group, ordered)
    inputs = torch.randn(19, in_size)
    bias, residual = torch.randn(out_size), torch.randn(19, out_size)
    found = product(KernelContext(2), pack(matrix, bias), inputs, residual, exact=exact)
    assert relative_error(found, inputs.double() @ matrix.dequantize().double().T + bias + residual) < bound


def test_quantized_inputs_are_what_they_are_said_to_be() -> None:
    """Symmetric, 8 bits, one scale for 128 of them: the same in torch, to the rounding of fp32."""
    matrix = random_matrix(4, 64, 512, 256)
    inputs = torch.randn(5, 512) * torch.logspace(-3, 3, 5)[:, None]
    groups = inputs.view(5, 4, 128)
    scales = groups.abs().amax(dim=-1, keepdim=True) / 127
    rounded = ((groups / scales).round() * scales).view(5, 512)
    found = product(KernelContext(1), pack(matrix), inputs)
    for row in range(5):
        assert relative_error(found[row], rounded[row].double() @ matrix.dequantize().double().T) < 1e-3


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("kind", ["f32", "bf16", "f16", "u4", "s8"])
def test_bits_depend_on_nothing_but_the_row(kind: str, exact: bool) -> None:
    plain = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
    weight = torch.randn(517, 256).to(plain[kind]) if kind in plain else random_matrix(int(kind[1]), 517, 256, 64)
    packed = pack(weight, torch.randn(517))
    inputs = torch.randn(130, 256)
    inputs[5] *= 1e-35
    inputs[6] = 0
    whole = product(KernelContext(1), packed, inputs, exact=exact)
    for instructions in available():
        for threads in (1, 3):
            context = KernelContext(threads, instructions)
            assert torch.equal(product(context, packed, inputs, exact=exact), whole), (instructions, threads)
            for rows in ROW_COUNTS:
                assert torch.equal(product(context, packed, inputs[:rows], exact=exact), whole[:rows]), (
                    instructions,
                    rows,
                )


@pytest.mark.parametrize("kind", ["f32", "u4", "s8"])
def test_what_is_not_a_number_is_not_hidden(kind: str) -> None:
    weight = torch.randn(16, 64) if kind == "f32" else random_matrix(int(kind[1]), 16, 64, 32)
    inputs = torch.randn(3, 64)
    inputs[1, 40] = torch.nan
    inputs[2, 7] = torch.inf
    found = product(KernelContext(1), pack(weight), inputs)
    assert torch.isfinite(found[0]).all()
    assert found[1].isnan().all()
    assert not torch.isfinite(found[2]).any()


def test_chosen_rows_come_in_their_order_and_missing_ones_are_zeros() -> None:
    weight, bias, inputs = torch.randn(10, 32), torch.randn(10), torch.randn(2, 32)
    rows = [3, -1, 0, 9, *[-1] * 14, 5]
    found = product(KernelContext(1), pack(weight, bias, rows), inputs)
    whole = product(KernelContext(1), pack(weight, bias), inputs)
    for place, row in enumerate(rows):
        assert torch.equal(found[:, place], torch.zeros(2) if row < 0 else whole[:, row])


def test_four_bits_take_half_a_byte() -> None:
    packed = pack(random_matrix(4, 256, 1024, 128))
    assert packed.byte_count == 256 * 1024 // 2 + 4 * 256 * 8


def test_scales_are_rounded_to_sixteen_bits_as_readers_round_them() -> None:
    """Weights that a program makes itself may have scales in fp32: the kernels keep what a file's scales would keep."""
    matrix = random_matrix(8, 32, 256, 128)
    scales = torch.rand(32, 2, generator=torch.Generator().manual_seed(0)) * 0.1 + 0.001
    read = torch.from_numpy(take_scales(Tensors({"m.scales": scales.numpy()}), "m.scales", (32, 2)))
    assert 0 < ((read - scales).abs() / scales).max() <= 2**-16
    given, rounded = (pack(replace(matrix, scales=each)).panels for each in (scales, read))
    assert np.array_equal(given, rounded)


def test_sixteen_bits_are_enough_for_what_came_from_sixteen() -> None:
    for dtype in (torch.bfloat16, torch.float16):
        assert stored(torch.randn(64, 64).to(dtype).float())[0].itemsize == 2
    assert stored(torch.randn(64, 64))[1] is Storage.F32


@pytest.mark.parametrize(("in_size", "group"), [(48, 16), (96, 48), (72, 64)])
def test_what_cannot_be_packed_is_said(in_size: int, group: int) -> None:
    codes, zeros = torch.zeros(8, in_size, dtype=torch.uint8), torch.zeros(8, 2, dtype=torch.uint8)
    possible, why = can_pack(QuantizedMatrix(codes, torch.ones(8, 2), zeros, 4, group))
    assert not possible
    assert f"groups of {group}" in why


def test_codes_of_other_kinds_are_not_packed() -> None:
    codes, zeros = torch.zeros(8, 64, dtype=torch.uint8), torch.zeros(8, 1, dtype=torch.uint8)
    floats = QuantizedMatrix(codes, torch.ones(8, 1), zeros, 4, 64, is_float=True)
    assert "floating-point numbers" in can_pack(floats)[1]
    assert "offsets" in can_pack(QuantizedMatrix(codes, torch.ones(8, 1), zeros.float(), 4, 64))[1]


def test_another_library_that_flushes_small_numbers_changes_no_bit() -> None:
    """Neither on the caller's thread nor on those that are started meanwhile."""
    packed, inputs = pack(torch.randn(300, 64) * 1e-30), torch.randn(70, 64) * 1e-10
    expected = product(KernelContext(1), packed, inputs)
    assert ((expected != 0) & (expected.abs() < torch.finfo(torch.float32).tiny)).any()
    assert torch.set_flush_denormal(True)
    try:
        for threads in (1, 3):
            found = KernelContext(threads).product(packed, inputs.numpy())
            assert torch.equal(torch.from_numpy(found).view(torch.int32), expected.view(torch.int32))
        assert torch.tensor([1e-39]).mul(1.0).item() == 0
    finally:
        torch.set_flush_denormal(False)
