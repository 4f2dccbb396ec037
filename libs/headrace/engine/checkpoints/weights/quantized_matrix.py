"""The canonical form of a quantized weight in torch's tensors, whatever the file format."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from headrace.engine.checkpoints.weights.quantized_arrays import QuantizedArrays


@dataclass(frozen=True, slots=True)
class QuantizedMatrix:
    """A weight [out, in] as integer codes with a scale and a zero point per row and group of inputs.

    W[n, input_order[k]] = (codes[n, k] - zeros[n, g]) * scales[n, g]  with  g = k // group_size
    """

    codes: Tensor
    """Codes uint8 [out, in], each below 2**bits."""
    scales: Tensor
    """Scales float32 [out, groups]."""
    zeros: Tensor
    """Codes that represent 0, uint8 [out, groups]."""
    bits: int
    group_size: int
    """Inputs that share a scale. The last group may be shorter."""
    input_order: Tensor | None = None
    """Input index of each column of `codes`, int64 [in], for groups that are not contiguous inputs. None: in order."""

    @classmethod
    def of(cls, arrays: QuantizedArrays) -> Self:
        """Returns the same weight over the same memory, for torch."""
        order = None if arrays.input_order is None else torch.from_numpy(arrays.input_order)
        codes, scales, zeros = (torch.from_numpy(array) for array in (arrays.codes, arrays.scales, arrays.zeros))
        return cls(codes, scales, zeros, arrays.bits, arrays.group_size, order)

    def arrays(self) -> QuantizedArrays:
        """Returns the same weight over the same memory where it can, for numpy."""
        order = None if self.input_order is None else self.input_order.numpy()
        codes, scales, zeros = (tensor.contiguous().numpy() for tensor in (self.codes, self.scales.float(), self.zeros))
        return QuantizedArrays(codes, scales, zeros, self.bits, self.group_size, order)

    def to(self, device: torch.device) -> "QuantizedMatrix":
        """Returns the same weight in a device's memory."""
        order = None if self.input_order is None else self.input_order.to(device)
        codes, scales, zeros = (tensor.to(device) for tensor in (self.codes, self.scales, self.zeros))
        return QuantizedMatrix(codes, scales, zeros, self.bits, self.group_size, order)

    def dequantize(self) -> Tensor:
        """Returns float32 [out, in], exact: codes and zero points have at most 8 bits, so the only rounding is to
        fp32."""
        groups = torch.arange(self.codes.shape[1], device=self.codes.device) // self.group_size
        centered = self.codes.float() - self.zeros.float()[:, groups]
        weight = centered * self.scales[:, groups]
        if self.input_order is None:
            return weight
        restored = torch.empty_like(weight)
        restored[:, self.input_order] = weight
        return restored


Weight = Tensor | QuantizedMatrix
"""The weight [out, in] of a product, plain or quantized."""


def stack(weights: Sequence[Weight]) -> Weight:
    """Stacks the rows of weights that share their inputs into one weight. Keeps quantized ones quantized if they are
    alike."""
    first, *others = weights
    if not others:
        return first
    if all(isinstance(weight, QuantizedMatrix) for weight in weights):
        matrices = [weight for weight in weights if isinstance(weight, QuantizedMatrix)]
        if all(_is_like(matrices[0], matrix) for matrix in matrices):
            return QuantizedMatrix(
                torch.cat([matrix.codes for matrix in matrices]),
                torch.cat([matrix.scales for matrix in matrices]),
                torch.cat([matrix.zeros for matrix in matrices]),
                matrices[0].bits,
                matrices[0].group_size,
                matrices[0].input_order,
            )
    return torch.cat([plain(weight) for weight in weights])


def plain(weight: Weight) -> Tensor:
    """Returns the weight as floating-point numbers."""
    return weight.dequantize() if isinstance(weight, QuantizedMatrix) else weight


def _is_like(first: QuantizedMatrix, other: QuantizedMatrix) -> bool:
    """Whether both can be rows of the same matrix."""
    if (first.bits, first.group_size) != (other.bits, other.group_size):
        return False
    if first.input_order is None or other.input_order is None:
        return first.input_order is other.input_order
    return torch.equal(first.input_order, other.input_order)
