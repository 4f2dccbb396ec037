"""The canonical form of a quantised weight: whatever the file looks like, it is read into this."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class QuantizedMatrix:
    """A weight [out, in] as integer codes with a scale and a zero point per row and group of inputs.

    W[n, input_order[k]] = (codes[n, k] - zeros[n, g]) * scales[n, g]  with  g = k // group_size
    """

    codes: Tensor
    """uint8 [out, in], each below 2**bits."""
    scales: Tensor
    """float32 [out, groups]."""
    zeros: Tensor
    """uint8 [out, groups]: the code that stands for 0."""
    bits: int
    group_size: int
    """Inputs that share a scale. The last group may be shorter."""
    input_order: Tensor | None = None
    """int64 [in]: which input each column of `codes` belongs to, where groups are not neighbours. None: as it is."""

    def dequantize(self) -> Tensor:
        """float32 [out, in], exact: codes and zero points have at most 8 bits, so no product is rounded beyond fp32."""
        groups = torch.arange(self.codes.shape[1], device=self.codes.device) // self.group_size
        centred = self.codes.float() - self.zeros.float()[:, groups]
        weight = centred * self.scales[:, groups]
        if self.input_order is None:
            return weight
        restored = torch.empty_like(weight)
        restored[:, self.input_order] = weight
        return restored
