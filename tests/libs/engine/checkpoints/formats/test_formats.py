"""Every format is read exactly as its specification says, for every width, order and group size.

The packers below are written from the formats' descriptions, value by value, and share no code with the readers.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.engine.checkpoints.facts.scheme import QuantizationScheme
from headrace.engine.checkpoints.formats import awq, compressed_tensors, gptq
from headrace.engine.checkpoints.weights.quantized_arrays import QuantizedArrays
from headrace.errors import InvalidCheckpoint, Unsupported

OUT, IN = 32, 96
GROUPS = [32, 96, None]


class Tensors(dict[str, Tensor]):
    """A checkpoint in memory."""

    def array(self, name: str) -> NDArray[Any]:
        if name not in self:
            raise InvalidCheckpoint(f"Tensor {name} is in none of the checkpoint's files.")
        tensor = self[name]
        return (tensor.float() if tensor.is_floating_point() else tensor).numpy()


def to_int32(word: int) -> int:
    return word - (1 << 32) if word >= 1 << 31 else word


def pack_bits(values: Sequence[int], bits: int) -> list[int]:
    """One long bit string, low bits first, cut into words."""
    whole = sum(value << (index * bits) for index, value in enumerate(values))
    count = -(-len(values) * bits // 32)
    return [to_int32((whole >> (32 * index)) & 0xFFFFFFFF) for index in range(count)]


def random_case(bits: int, group: int | None, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Codes [in, out], zeros [groups, out], scales [groups, out] in fp16."""
    generator = torch.Generator().manual_seed(seed)
    groups = IN // (group or IN)
    codes = torch.randint(0, 1 << bits, (IN, OUT), generator=generator)
    zeros = torch.randint(0, 1 << bits, (groups, OUT), generator=generator)
    scales = torch.rand((groups, OUT), generator=generator).half() * 0.1 + 0.001
    return codes, zeros, scales.half()


def expected_weight(codes: Tensor, zeros: Tensor, scales: Tensor, group_of: Sequence[int]) -> Tensor:
    """[out, in], one value at a time."""
    weight = torch.empty(OUT, IN)
    for k, n in itertools.product(range(IN), range(OUT)):
        g = group_of[k]
        weight[n, k] = (int(codes[k, n]) - int(zeros[g, n])) * float(scales[g, n])
    return weight


def check(matrix: QuantizedArrays, expected: Tensor, scales: Tensor) -> None:
    found = torch.from_numpy(matrix.dequantize())
    assert torch.equal(found, expected)
    # In the file's own precision too: that is what its producer computes with.
    assert torch.equal(found.to(scales.dtype), expected.to(scales.dtype))


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("seed", range(3))
def test_awq(group: int | None, seed: int) -> None:
    codes, zeros, scales = random_case(4, group, seed)
    order = [0, 2, 4, 6, 1, 3, 5, 7]

    def pack(rows: Tensor) -> Tensor:
        words = [
            [
                to_int32(sum(int(row[8 * word + order[nibble]]) << (4 * nibble) for nibble in range(8)))
                for word in range(OUT // 8)
            ]
            for row in rows
        ]
        return torch.tensor(words, dtype=torch.int32)

    source = Tensors({"m.qweight": pack(codes), "m.qzeros": pack(zeros), "m.scales": scales})
    matrix = awq.read(source, "m", OUT, IN, QuantizationScheme("awq", 4, group, symmetric=False))
    check(matrix, expected_weight(codes, zeros, scales, [k // (group or IN) for k in range(IN)]), scales)


def gptq_tensors(
    codes: Tensor, zeros: Tensor, scales: Tensor, bits: int, stored_offset: int, g_idx: Tensor | None = None
) -> Tensors:
    mask = (1 << bits) - 1
    columns = [pack_bits(codes[:, n].tolist(), bits) for n in range(OUT)]
    stored = [[(int(value) - stored_offset) & mask for value in row] for row in zeros]
    tensors = Tensors(
        {
            "m.qweight": torch.tensor(columns, dtype=torch.int32).T.contiguous(),
            "m.qzeros": torch.tensor([pack_bits(row, bits) for row in stored], dtype=torch.int32),
            "m.scales": scales,
        }
    )
    if g_idx is not None:
        tensors["m.g_idx"] = g_idx.to(torch.int32)
    return tensors


@pytest.mark.slow
@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("offset", [0, 1])
def test_gptq_asymmetric(bits: int, group: int | None, offset: int) -> None:
    codes, zeros, scales = random_case(bits, group, bits)
    scheme = QuantizationScheme("gptq", bits, group, symmetric=False, zero_offset=offset)
    matrix = gptq.read(gptq_tensors(codes, zeros, scales, bits, offset), "m", OUT, IN, scheme)
    check(matrix, expected_weight(codes, zeros, scales, [k // (group or IN) for k in range(IN)]), scales)


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize(("label", "written"), list(itertools.product([0, 1], [0, 1])))
def test_gptq_symmetric_is_read_as_written_whatever_its_label(bits: int, label: int, written: int) -> None:
    codes, _, scales = random_case(bits, 32, 7)
    zeros = torch.full((IN // 32, OUT), 1 << (bits - 1))
    scheme = QuantizationScheme("gptq", bits, 32, symmetric=True, zero_offset=label)
    matrix = gptq.read(gptq_tensors(codes, zeros, scales, bits, written), "m", OUT, IN, scheme)
    check(matrix, expected_weight(codes, zeros, scales, [k // 32 for k in range(IN)]), scales)


@pytest.mark.parametrize("bits", [3, 4])
def test_gptq_in_activation_order(bits: int) -> None:
    codes, zeros, scales = random_case(bits, 32, 11)
    g_idx = torch.arange(IN)[torch.randperm(IN, generator=torch.Generator().manual_seed(1))] // 32
    scheme = QuantizationScheme("gptq", bits, 32, symmetric=False)
    matrix = gptq.read(gptq_tensors(codes, zeros, scales, bits, 0, g_idx), "m", OUT, IN, scheme)
    assert matrix.input_order is not None
    check(matrix, expected_weight(codes, zeros, scales, g_idx.tolist()), scales)


def test_gptq_with_trivial_order_has_no_permutation() -> None:
    codes, zeros, scales = random_case(4, 32, 3)
    tensors = gptq_tensors(codes, zeros, scales, 4, 0, torch.arange(IN) // 32)
    assert gptq.read(tensors, "m", OUT, IN, QuantizationScheme("gptq", 4, 32, False)).input_order is None


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("symmetric", [True, False])
def test_compressed_tensors_packed(bits: int, group: int | None, symmetric: bool) -> None:
    codes, zeros, scales = random_case(bits, group, 5)
    if symmetric:
        zeros = torch.full_like(zeros, 1 << (bits - 1))
    source = Tensors(
        {
            "m.weight_packed": torch.tensor(
                [pack_bits(codes[:, n].tolist(), bits) for n in range(OUT)], dtype=torch.int32
            ),
            "m.weight_scale": scales.T.contiguous(),
            "m.weight_shape": torch.tensor([OUT, IN]),
        }
    )
    if not symmetric:
        packed = [pack_bits(row.tolist(), bits) for row in zeros]
        source["m.weight_zero_point"] = torch.tensor(packed, dtype=torch.int32).T.contiguous()
    scheme = QuantizationScheme("compressed-tensors", bits, group, symmetric)
    matrix = compressed_tensors.read(source, "m", OUT, IN, scheme)
    check(matrix, expected_weight(codes, zeros, scales, [k // (group or IN) for k in range(IN)]), scales)


def test_compressed_tensors_int8() -> None:
    weight = torch.randint(-128, 128, (OUT, IN), dtype=torch.int8)
    scales = torch.rand(OUT, 1).bfloat16() + 0.01
    source = Tensors({"m.weight": weight, "m.weight_scale": scales})
    matrix = compressed_tensors.read(source, "m", OUT, IN, QuantizationScheme("compressed-tensors", 8, None, True))
    assert torch.equal(torch.from_numpy(matrix.dequantize()), weight.float() * scales.float())


def good_gptq() -> Tensors:
    codes, _, scales = random_case(4, 32, 1)
    return gptq_tensors(codes, torch.full((3, OUT), 8), scales, 4, 1, torch.arange(IN) // 32)


SYMMETRIC = QuantizationScheme("gptq", 4, 32, symmetric=True, zero_offset=1)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("m.qweight", lambda tensor: tensor[:-1]),
        ("m.qweight", lambda tensor: tensor.float()),
        ("m.qzeros", lambda tensor: tensor[:, :-1]),
        ("m.qzeros", lambda tensor: torch.zeros_like(tensor)),
        ("m.scales", lambda tensor: tensor.T),
        ("m.scales", lambda tensor: tensor / 0),
        ("m.scales", lambda tensor: tensor.to(torch.int32)),
        ("m.g_idx", lambda tensor: tensor - 1),
        ("m.g_idx", lambda tensor: torch.zeros_like(tensor)),
        ("m.g_idx", lambda tensor: tensor[:5]),
        ("m.qweight", None),
        ("m.scales", None),
    ],
)
def test_whatever_is_wrong_is_named(name: str, change: object) -> None:
    tensors = good_gptq()
    gptq.read(tensors, "m", OUT, IN, SYMMETRIC)
    if change is None:
        del tensors[name]
    else:
        tensors[name] = change(tensors[name])  # type: ignore[operator]
    with pytest.raises((InvalidCheckpoint, Unsupported), match=name.replace(".", r"\.")):
        gptq.read(tensors, "m", OUT, IN, SYMMETRIC)


def test_sizes_that_do_not_divide_name_the_module() -> None:
    with pytest.raises(InvalidCheckpoint, match="m: the input size is 96"):
        awq.read(Tensors(), "m", OUT, IN, QuantizationScheme("awq", 4, 64, False))
