"""Floating-point formats are read exactly as their specifications say: each number is that of torch's own type, or of
the table of OCP Microscaling Formats 1.0, times its scale."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from numpy.typing import NDArray
from tests.libs.engine.tiny_floats import E2M1, fp8_blocks, fp8_rows, mxfp4, nvfp4
from torch import Tensor

from headrace.engine.checkpoints.facts.scheme import QuantizationScheme
from headrace.engine.checkpoints.formats import compressed_floats, fp8
from headrace.engine.checkpoints.weights.code_numbers import code_numbers
from headrace.engine.checkpoints.weights.quantized_arrays import QuantizedArrays
from headrace.errors import InvalidCheckpoint

OUT, IN = 40, 96
WEIGHT = torch.randn(OUT, IN, generator=torch.Generator().manual_seed(3))
BYTES = (torch.float8_e4m3fn, torch.float8_e8m0fnu)
NVFP4 = QuantizationScheme("fp4-pack-quantized", 4, 16, symmetric=True, is_float=True)
MXFP4 = QuantizationScheme("fp4-pack-quantized", 4, 32, symmetric=True, is_float=True)
FP8_ROWS = QuantizationScheme("float-quantized", 8, None, symmetric=True, is_float=True)


class Tensors(dict[str, Tensor]):
    """A module in memory, its tensors by the ends of their names."""

    def __contains__(self, name: object) -> bool:
        return str(name).removeprefix("m.") in self.keys()

    def array(self, name: str) -> NDArray[Any]:
        tensor = self[name.removeprefix("m.")]
        if tensor.dtype in BYTES:
            return tensor.view(torch.uint8).numpy()
        return (tensor.float() if tensor.is_floating_point() else tensor).numpy()


def fp8_scheme(rows: int, columns: int) -> QuantizationScheme:
    return QuantizationScheme("fp8", 8, columns, symmetric=True, is_float=True, block_rows=rows)


def check(found: QuantizedArrays, expected: Tensor) -> None:
    assert torch.equal(torch.from_numpy(found.dequantize()), expected)


def pair_numbers(packed: Tensor) -> Tensor:
    """The numbers of codes of 4 bits, low bits first, one value at a time."""
    rows = []
    for row in packed.tolist():
        codes = [code for byte in row for code in (byte % 16, byte // 16)]
        rows.append([float(E2M1[code % 8]) * (-1 if code >= 8 else 1) for code in codes])
    return torch.tensor(rows)


def test_each_code_is_the_number_of_its_type() -> None:
    eight = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float()
    assert torch.equal(torch.from_numpy(code_numbers(8, is_float=True)).nan_to_num(7.5), eight.nan_to_num(7.5))
    assert torch.equal(torch.from_numpy(code_numbers(4, is_float=True)), torch.cat((E2M1, -E2M1)))
    assert code_numbers(4, is_float=False).tolist() == list(range(16))


@pytest.mark.parametrize(("rows", "columns"), [(8, 32), (16, 32), (128, 128), (16, 64)])
def test_fp8_with_a_scale_for_each_block(rows: int, columns: int) -> None:
    """The last blocks of 16 rows and of 64 columns are smaller."""
    stored = Tensors(fp8_blocks(WEIGHT, rows, columns))
    expected = torch.empty_like(WEIGHT)
    for n in range(OUT):
        for k in range(IN):
            scale = stored["weight_scale_inv"][n // rows, k // columns]
            expected[n, k] = stored["weight"][n, k].float() * scale
    check(fp8.read(stored, "m", OUT, IN, fp8_scheme(rows, columns)), expected)


def test_compressed_fp8_with_scales_of_rows_of_the_tensor_and_of_blocks() -> None:
    rows = Tensors(fp8_rows(WEIGHT))
    numbers = rows["weight"].float()
    check(compressed_floats.read_numbers(rows, "m", OUT, IN, FP8_ROWS), numbers * rows["weight_scale"].float())
    for shape in ((1,), ()):
        whole = Tensors({"weight": rows["weight"], "weight_scale": torch.full(shape, 0.375)})
        check(compressed_floats.read_numbers(whole, "m", OUT, IN, FP8_ROWS), numbers * 0.375)
    blocks = fp8_blocks(WEIGHT, 16, 32)
    stored = Tensors({"weight": blocks["weight"], "weight_scale": blocks["weight_scale_inv"]})
    scheme = QuantizationScheme("float-quantized", 8, 32, symmetric=True, is_float=True, block_rows=16)
    scales = blocks["weight_scale_inv"].repeat_interleave(16, 0)[:OUT].repeat_interleave(32, 1)
    check(compressed_floats.read_numbers(stored, "m", OUT, IN, scheme), blocks["weight"].float() * scales)


def test_mxfp4_scales_are_powers_of_two() -> None:
    stored = Tensors(mxfp4(WEIGHT))
    stored["weight_scale"][0, :2] = torch.tensor([0, 252], dtype=torch.uint8)
    powers = 2.0 ** (stored["weight_scale"].double() - 127)
    expected = (pair_numbers(stored["weight_packed"]).double() * powers.repeat_interleave(32, 1)).float()
    found = compressed_floats.read_pairs(stored, "m", OUT, IN, MXFP4)
    check(found, expected)
    as_type = Tensors(stored | {"weight_scale": stored["weight_scale"].view(torch.float8_e8m0fnu)})
    check(compressed_floats.read_pairs(as_type, "m", OUT, IN, MXFP4), expected)


def test_nvfp4_scales_are_divided_by_that_of_the_tensor() -> None:
    stored = Tensors(nvfp4(WEIGHT))
    scales = stored["weight_scale"].float() / stored["weight_global_scale"]
    expected = pair_numbers(stored["weight_packed"]) * scales.repeat_interleave(16, 1)
    found = compressed_floats.read_pairs(stored, "m", OUT, IN, NVFP4)
    check(found, expected)
    assert (torch.from_numpy(found.dequantize()) - WEIGHT).abs().max() < 0.6, "it is near what was rounded"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("weight_packed", lambda tensor: tensor[:, :-1]),
        ("weight_packed", lambda tensor: tensor.to(torch.int32)),
        ("weight_scale", lambda tensor: tensor.T),
        ("weight_scale", lambda tensor: torch.full_like(tensor.view(torch.uint8), 0xFF).view(torch.float8_e4m3fn)),
        ("weight_global_scale", lambda tensor: tensor * 0),
        ("weight_global_scale", lambda tensor: tensor / 0),
        ("weight_global_scale", lambda tensor: tensor.repeat(2)),
    ],
)
def test_whatever_is_wrong_with_nvfp4_is_named(name: str, change: Callable[[Tensor], Tensor]) -> None:
    stored = Tensors(nvfp4(WEIGHT))
    stored[name] = change(stored[name])
    with pytest.raises(InvalidCheckpoint, match=f"m.{name}"):
        compressed_floats.read_pairs(stored, "m", OUT, IN, NVFP4)


def test_whatever_is_wrong_with_the_others_is_named() -> None:
    powers = Tensors(mxfp4(WEIGHT))
    powers["weight_scale"][1, 1] = 255
    with pytest.raises(InvalidCheckpoint, match=r"m\.weight_scale holds scales that are no numbers"):
        compressed_floats.read_pairs(powers, "m", OUT, IN, MXFP4)
    for code in (0x7F, 0xFF):
        blocks = Tensors(fp8_blocks(WEIGHT))
        blocks["weight"].view(torch.uint8)[2, 3] = code
        with pytest.raises(InvalidCheckpoint, match=r"m\.weight holds bytes that are no numbers"):
            fp8.read(blocks, "m", OUT, IN, fp8_scheme(32, 32))
    for wrong in (lambda scales: scales[1:], lambda scales: scales / 0, lambda scales: scales.int()):
        blocks = Tensors(fp8_blocks(WEIGHT))
        blocks["weight_scale_inv"] = wrong(blocks["weight_scale_inv"])
        with pytest.raises(InvalidCheckpoint, match=r"m\.weight_scale_inv"):
            fp8.read(blocks, "m", OUT, IN, fp8_scheme(32, 32))


def test_numbers_out_of_range_name_the_module() -> None:
    blocks, powers, small = Tensors(fp8_blocks(WEIGHT)), Tensors(mxfp4(WEIGHT)), Tensors(nvfp4(WEIGHT))
    blocks["weight_scale_inv"] = blocks["weight_scale_inv"] * 0 + 1e36
    powers["weight_scale"][0, 0] = 254
    small["weight_global_scale"] = torch.tensor([1e-38])
    with pytest.raises(InvalidCheckpoint, match="module m has scales"):
        fp8.read(blocks, "m", OUT, IN, fp8_scheme(32, 32))
    for stored, scheme in ((powers, MXFP4), (small, NVFP4)):
        with pytest.raises(InvalidCheckpoint, match="module m has scales"):
            compressed_floats.read_pairs(stored, "m", OUT, IN, scheme)


def test_sizes_that_do_not_divide_name_the_module() -> None:
    with pytest.raises(InvalidCheckpoint, match="m: the input size is 40"):
        compressed_floats.read_pairs(Tensors(), "m", OUT, 40, MXFP4)
