"""A norm on the CPU kernels."""

import torch
from torch import Tensor

from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.structures import Norm
from headrace.engine.torch.operators.floats import floats


class KernelNorm:
    """A norm of rows. With a bias, subtracts the mean first."""

    def __init__(self, context: KernelContext, weight: Tensor, bias: Tensor | None, epsilon: float) -> None:
        self._context = context
        self._weight = floats(weight)
        self._bias = None if bias is None else floats(bias)
        shift = None if self._bias is None else self._bias.data_ptr()
        self._norm = Norm(self._weight.data_ptr(), shift, len(weight), epsilon)

    def __call__(self, inputs: Tensor) -> Tensor:
        numbers = floats(inputs)
        outputs = torch.empty_like(numbers)
        self._context.normalize(self._norm, numbers.data_ptr(), outputs.data_ptr(), len(numbers))
        return outputs.to(inputs.dtype)
