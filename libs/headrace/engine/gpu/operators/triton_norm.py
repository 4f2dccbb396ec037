"""A norm on the kernels for GPUs."""

from torch import Tensor

from headrace.engine.triton.residual_norm import normalize


class TritonNorm:
    """Root mean square layer normalization (Zhang and Sennrich, 2019) of rows, rounded once."""

    def __init__(self, weight: Tensor, epsilon: float) -> None:
        self._weight = weight.contiguous()
        self._epsilon = epsilon

    def __call__(self, inputs: Tensor) -> Tensor:
        return normalize(inputs.contiguous(), self._weight, self._epsilon)
