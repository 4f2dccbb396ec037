"""The canonical form of a quantized weight in torch's tensors, whatever the file format."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import Self

import torch
from torch import Tensor

from headrace.engine.checkpoints.weights.block_matrix import BlockMatrix
from headrace.engine.checkpoints.weights.code_numbers import code_numbers
from headrace.engine.checkpoints.weights.quantized_arrays import QuantizedArrays


@dataclass(frozen=True, slots=True)
class QuantizedMatrix:
    """A weight [out, in] as codes with a scale and a zero point per row and group of inputs.

    W[n, input_order[k]] = (number(codes[n, k]) - number(zeros[n, g])) * scales[n, g]  with  g = k // group_size

    The number of a code is the code as an integer, or as a float: see `code_numbers`. Floats have zero points of 0.
    Blocks of GGUF with minima have offsets in their place: W[n, k] = codes[n, k] * scales[n, g] + zeros[n, g].
    """

    codes: Tensor
    """Codes uint8 [out, in], each below 2**bits."""
    scales: Tensor
    """Scales float32 [out, groups]."""
    zeros: Tensor
    """Codes that represent 0, uint8 [out, groups], or offsets float32."""
    bits: int
    group_size: int
    """Inputs that share a scale. The last group may be shorter."""
    input_order: Tensor | None = None
    """Input index of each column of `codes`, int64 [in], for groups that are not contiguous inputs. None: in order."""
    is_float: bool = False
    """Whether codes are floating-point numbers."""

    @classmethod
    def of(cls, arrays: QuantizedArrays) -> Self:
        """Returns the same weight over the same memory, for torch."""
        order = None if arrays.input_order is None else torch.from_numpy(arrays.input_order)
        codes, scales, zeros = (torch.from_numpy(array) for array in (arrays.codes, arrays.scales, arrays.zeros))
        return cls(codes, scales, zeros, arrays.bits, arrays.group_size, order, arrays.is_float)

    def arrays(self) -> QuantizedArrays:
        """Returns the same weight over the same memory where it can, for numpy."""
        order = None if self.input_order is None else self.input_order.numpy()
        codes, scales, zeros = (tensor.contiguous().numpy() for tensor in (self.codes, self.scales.float(), self.zeros))
        return QuantizedArrays(codes, scales, zeros, self.bits, self.group_size, order, self.is_float)

    def to(self, device: torch.device) -> "QuantizedMatrix":
        """Returns the same weight in a device's memory."""
        order = None if self.input_order is None else self.input_order.to(device)
        codes, scales, zeros = (tensor.to(device) for tensor in (self.codes, self.scales, self.zeros))
        return QuantizedMatrix(codes, scales, zeros, self.bits, self.group_size, order, self.is_float)

    @property
    def has_offsets(self) -> bool:
        return self.zeros.is_floating_point()

    def dequantize(self) -> Tensor:
        """Returns float32 [out, in]. Without offsets it is exact: codes and zero points have at most 8 bits, so the
        only rounding is to fp32."""
        groups = torch.arange(self.codes.shape[1], device=self.codes.device) // self.group_size
        numbers = torch.from_numpy(code_numbers(self.bits, is_float=self.is_float)).to(self.codes.device)
        if self.has_offsets:
            weight = numbers[self.codes.int()] * self.scales[:, groups] + self.zeros[:, groups]
        else:
            weight = (numbers[self.codes.int()] - numbers[self.zeros.int()][:, groups]) * self.scales[:, groups]
        if self.input_order is None:
            return weight
        restored = torch.empty_like(weight)
        restored[:, self.input_order] = weight
        return restored


Weight = Tensor | QuantizedMatrix | BlockMatrix
"""The weight [out, in] of a product, plain or quantized."""


def stack(weights: Sequence[Weight]) -> Weight:
    """Stacks the rows of weights that share their inputs into one weight. Keeps quantized ones quantized if they are
    alike, and those with offsets beside any that have their inputs in order."""
    first, *others = weights
    if not others:
        return first
    blocks = [weight for weight in weights if isinstance(weight, BlockMatrix)]
    if len(blocks) == len(weights):
        return BlockMatrix.stack(blocks)
    if all(isinstance(weight, QuantizedMatrix) for weight in weights):
        matrices = _alike([weight for weight in weights if isinstance(weight, QuantizedMatrix)])
        if all(_is_like(matrices[0], matrix) for matrix in matrices):
            return QuantizedMatrix(
                torch.cat([matrix.codes for matrix in matrices]),
                torch.cat([matrix.scales for matrix in matrices]),
                torch.cat([matrix.zeros for matrix in matrices]),
                matrices[0].bits,
                matrices[0].group_size,
                matrices[0].input_order,
                matrices[0].is_float,
            )
    return torch.cat([plain(weight) for weight in weights])


def reordered(weight: Weight, rows: Tensor) -> Weight:
    """Takes the rows of a weight at `rows`, int64 [rows], in this order."""
    if isinstance(weight, Tensor):
        return weight[rows.to(weight.device)]
    if isinstance(weight, BlockMatrix):
        return weight.reordered(rows.numpy())
    places = rows.to(weight.codes.device)
    return replace(weight, codes=weight.codes[places], scales=weight.scales[places], zeros=weight.zeros[places])


def plain(weight: Weight) -> Tensor:
    """Returns the weight as floating-point numbers."""
    return weight if isinstance(weight, Tensor) else weight.dequantize()


def _alike(matrices: list[QuantizedMatrix]) -> list[QuantizedMatrix]:
    """Gives integers the same bits, groups and offsets, if some have offsets: GGUF's files mix kinds of blocks."""
    takes_offsets = all(matrix.input_order is None and not matrix.is_float for matrix in matrices)
    if not takes_offsets or not any(matrix.has_offsets for matrix in matrices):
        return matrices
    bits, group_size = max(each.bits for each in matrices), gcd(*(each.group_size for each in matrices))
    return [_with_offsets(matrix, bits, group_size) for matrix in matrices]


def _with_offsets(matrix: QuantizedMatrix, bits: int, group_size: int) -> QuantizedMatrix:
    offsets = matrix.zeros if matrix.has_offsets else -(matrix.zeros * matrix.scales)
    grids = [grid.repeat_interleave(matrix.group_size // group_size, 1) for grid in (matrix.scales, offsets)]
    group_count = -(-matrix.codes.shape[1] // group_size)
    scales, zeros = (grid[:, :group_count].contiguous() for grid in grids)
    return replace(matrix, scales=scales, zeros=zeros, bits=bits, group_size=group_size)


def _is_like(first: QuantizedMatrix, other: QuantizedMatrix) -> bool:
    """Whether both can be rows of the same matrix."""
    facts = ((each.bits, each.group_size, each.is_float, each.zeros.dtype) for each in (first, other))
    if len(set(facts)) > 1:
        return False
    if first.input_order is None or other.input_order is None:
        return first.input_order is other.input_order
    return torch.equal(first.input_order, other.input_order)
