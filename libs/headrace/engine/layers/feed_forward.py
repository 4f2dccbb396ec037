"""The feed-forward block of Vaswani et al. (2017): two products with an activation between them."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

from headrace.engine.layers.linear import Linear


@dataclass(frozen=True, slots=True)
class FeedForward:
    up: Linear
    down: Linear
    activate: Callable[[Tensor], Tensor]

    def add(self, inputs: Tensor, residual: Tensor) -> Tensor:
        """The block's output plus `residual`, both [rows, hidden]."""
        return self.down.add(self.activate(self.up(inputs)), residual)


def gelu(inputs: Tensor) -> Tensor:
    """x times the normal distribution's share below x (Hendrycks and Gimpel, 2016).

    torch's own sends the last elements through another error function than the rest, so on the CPU it is built from
    operations that treat all elements alike.
    """
    if inputs.device.type != "cpu":
        return functional.gelu(inputs)
    wide = inputs.float()
    return (wide * math.sqrt(0.5)).erf_().add_(1.0).mul_(wide).mul_(0.5).to(inputs.dtype)
