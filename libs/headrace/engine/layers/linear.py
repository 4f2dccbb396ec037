"""Matrix products with weights, such that a row's result does not depend on how many rows there are.

The general matrix product of a BLAS picks another summation order for 1, 2, or 4 and more rows, which would let
the company that a request happens to be in change its tokens.
"""

from collections.abc import Callable
from typing import Protocol, TypeGuard

import torch
from torch import Tensor
from torch.nn import functional

from headrace.engine.kernels.cpu.context import Floats
from headrace.engine.kernels.cpu.packing import pack
from headrace.engine.kernels.cpu.shared_context import shared_context
from headrace.engine.quantization.quantized_matrix import QuantizedMatrix, Weight

ROW_TILE = 4
"""From this row count on, MKL's fp32 product treats all rows alike, with one thread."""


class Linear(Protocol):
    def __call__(self, inputs: Tensor) -> Tensor:
        """[rows, in] to [rows, out]."""
        ...

    def add(self, inputs: Tensor, residual: Tensor) -> Tensor:
        """The product plus `residual` [rows, out]."""
        ...


def build_linear(weight: Weight, bias: Tensor | None = None) -> Linear:
    """The fastest row-invariant product for `weight` [out, in] that this device has."""
    if isinstance(weight, QuantizedMatrix):
        return PackedLinear(weight, bias)
    return OneDnnLinear(weight, bias) if has_onednn(weight) else DenseLinear(weight, bias)


def has_onednn(weight: Weight) -> TypeGuard[Tensor]:
    """oneDNN can hold `weight` in its own layout."""
    if isinstance(weight, QuantizedMatrix):
        return False
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and bool(torch._C._has_mkldnn)


class OneDnnLinear:
    """fp32 on the CPU with weights in oneDNN's own layout. Its kernel sums in the same order for any row count."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None)
        self._run: Callable[..., Tensor] = torch.ops.mkldnn._linear_pointwise.default
        self._run_binary: Callable[..., Tensor] = torch.ops.mkldnn._linear_pointwise.binary
        self._bias = bias

    def __call__(self, inputs: Tensor) -> Tensor:
        return self._run(inputs, self._weight, self._bias, "none", [], "")

    def add(self, inputs: Tensor, residual: Tensor) -> Tensor:
        return self._run_binary(inputs, residual, self._weight, self._bias, "add")

    def multiply(self, inputs: Tensor, factor: Tensor) -> Tensor:
        """The product times `factor` [rows, out], element by element."""
        return self._run_binary(inputs, factor, self._weight, self._bias, "mul")

    def swish(self, inputs: Tensor) -> Tensor:
        """x times sigmoid(x) for each element x of the product."""
        return self._run(inputs, self._weight, self._bias, "swish", [], "")


class PackedLinear:
    """fp32 on the CPU with a weight that stays packed: 4 bits take an eighth of the memory of fp32."""

    def __init__(self, matrix: QuantizedMatrix, bias: Tensor | None) -> None:
        self._weight = pack(matrix, bias)

    def __call__(self, inputs: Tensor) -> Tensor:
        return self._product(inputs, None)

    def add(self, inputs: Tensor, residual: Tensor) -> Tensor:
        return self._product(inputs, residual.contiguous().numpy())

    def _product(self, inputs: Tensor, residual: Floats | None) -> Tensor:
        context = shared_context(torch.get_num_threads())
        return torch.from_numpy(context.product(self._weight, inputs.contiguous().numpy(), residual, exact=True))


class DenseLinear:
    """The general product. On the CPU, rows are padded to whole tiles per thread."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight = weight
        self._bias = bias

    def __call__(self, inputs: Tensor) -> Tensor:
        row_count = inputs.shape[0]
        if inputs.device.type == "cpu":
            inputs = functional.pad(inputs, (0, 0, 0, -row_count % (ROW_TILE * torch.get_num_threads())))
        return functional.linear(inputs, self._weight, self._bias)[:row_count]

    def add(self, inputs: Tensor, residual: Tensor) -> Tensor:
        return self(inputs).add_(residual)
