"""Root mean square layer normalization (Zhang and Sennrich, 2019)."""

import torch
from torch import Tensor


class RmsNorm:
    """Computes x / sqrt(mean(x²) + epsilon) * weight for each row."""

    def __init__(self, weight: Tensor, epsilon: float) -> None:
        self._weight = weight
        self._epsilon = torch.tensor(epsilon, dtype=torch.float32, device=weight.device)

    def __call__(self, inputs: Tensor) -> Tensor:
        """Maps [rows, hidden] to the same shape, or [rows, heads, head] with a weight for each head.

        The result has the dtype of `inputs`. With an fp32 weight, rounding to that dtype comes last, as in Gemma. On
        the CPU, `torch.rms_norm` in torch 2.13 is a chain of twice as many operations.
        """
        length = torch.linalg.vector_norm(inputs, dim=-1, keepdim=True, dtype=torch.float32)
        scale = torch.addcmul(self._epsilon, length, length, value=1 / inputs.shape[-1]).rsqrt_()
        return (inputs * scale).to(self._weight.dtype).mul_(self._weight).to(inputs.dtype)
