"""A norm on the kernels for GPUs."""

from torch import Tensor

from headrace.engine.triton.residual_norm import add_and_normalize, normalize
from headrace.engine.triton.split_sum import SplitRows


class TritonNorm:
    """Root mean square layer normalization (Zhang and Sennrich, 2019) of rows, rounded once."""

    def __init__(self, weight: Tensor, epsilon: float) -> None:
        self._weight = weight.contiguous()
        self._epsilon = epsilon

    def __call__(self, inputs: Tensor) -> Tensor:
        return normalize(inputs.contiguous(), self._weight, self._epsilon)

    def add(self, rows: SplitRows, residual: Tensor) -> tuple[Tensor, Tensor]:
        """Adds rows to `residual` [rows, size]. Returns the sums and the normalized sums."""
        return add_and_normalize(rows, residual.contiguous(), self._weight, self._epsilon)
