"""Gates most of which are zero, as in Gemma 3n."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class SparseGate:
    """Lowers a row's gates by a quantile of the normal distribution that has their mean and deviation, and keeps those
    above zero, before they are activated."""

    gate: Callable[[Tensor], Tensor]
    """Activates gates and multiplies by ups: [rows, 2 x size] to [rows, size]."""
    deviations: float
    """Quantile, in standard deviations above the mean."""

    def __call__(self, inputs: Tensor) -> Tensor:
        """Maps [rows, 2 x size], gates before ups, to [rows, size]."""
        gates, ups = (half.contiguous() for half in inputs.chunk(2, dim=1))
        mean = gates.mean(dim=1, keepdim=True)
        length = torch.linalg.vector_norm(gates - mean, dim=1, keepdim=True)
        kept = torch.relu(gates - (mean + length * (self.deviations / math.sqrt(gates.shape[1]))))
        return self.gate(torch.cat([kept, ups], dim=1))
