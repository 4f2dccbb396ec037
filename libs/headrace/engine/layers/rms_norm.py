"""Root mean square layer normalisation (Zhang and Sennrich, 2019)."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class RmsNorm:
    weight: Tensor
    """[hidden]."""
    epsilon: float

    def __call__(self, inputs: Tensor) -> Tensor:
        """[rows, hidden] to the same shape."""
        return functional.rms_norm(inputs, self.weight.shape, self.weight, self.epsilon)
