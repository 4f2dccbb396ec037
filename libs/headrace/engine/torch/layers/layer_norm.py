"""Layer normalization (Ba et al., 2016)."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class LayerNorm:
    """Computes (x - mean) / sqrt(variance + epsilon) * weight + bias for each row."""

    weight: Tensor
    bias: Tensor
    epsilon: float

    def __call__(self, inputs: Tensor) -> Tensor:
        """Maps [rows, hidden] to the same shape."""
        numbers = inputs.to(self.weight.dtype)
        return functional.layer_norm(numbers, self.weight.shape, self.weight, self.bias, self.epsilon).to(inputs.dtype)
