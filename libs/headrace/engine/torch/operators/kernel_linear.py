"""A linear layer on the CPU kernels."""

import torch
from torch import Tensor

from headrace.engine.checkpoints.packing.tensor_packing import pack_parts
from headrace.engine.checkpoints.weights.quantized_matrix import Weight
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.structures import Matrix
from headrace.engine.torch.operators.floats import floats


class KernelLinear:
    """A product with a packed weight: 4 bits take an eighth of the memory of fp32."""

    def __init__(self, context: KernelContext, weight: Weight, bias: Tensor | None, *, exact: bool) -> None:
        """Packs a weight [out, in]. `exact` multiplies codes by the inputs unchanged; otherwise those are rounded to 8
        bits for it."""
        self._context = context
        self._parts = pack_parts(weight, bias)
        self._matrices = [part.matrix(exact=exact) for part in self._parts]

    def __call__(self, inputs: Tensor) -> Tensor:
        return self._product(inputs, None)

    def add_to_residual(self, inputs: Tensor, residual: Tensor) -> Tensor:
        return self._product(inputs, floats(residual))

    def _product(self, inputs: Tensor, residual: Tensor | None) -> Tensor:
        numbers = floats(inputs)
        if len(self._matrices) == 1:
            return self._multiply(self._matrices[0], numbers, residual).to(inputs.dtype)
        outputs = torch.cat([self._multiply(matrix, numbers, None) for matrix in self._matrices], dim=1)
        return (outputs if residual is None else outputs.add_(residual)).to(inputs.dtype)

    def _multiply(self, matrix: Matrix, numbers: Tensor, residual: Tensor | None) -> Tensor:
        outputs = torch.empty(len(numbers), matrix.out)
        added = None if residual is None else residual.data_ptr()
        self._context.multiply(matrix, numbers.data_ptr(), added, outputs.data_ptr(), len(numbers))
        return outputs
