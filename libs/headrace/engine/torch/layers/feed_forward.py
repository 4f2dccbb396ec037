"""The feed-forward block of Vaswani et al. (2017): two products with an activation between them."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from headrace.engine.torch.layers.linear import Linear


@dataclass(frozen=True, slots=True)
class FeedForward:
    up: Linear
    down: Linear
    activate: Callable[[Tensor], Tensor]

    def __call__(self, inputs: Tensor) -> Tensor:
        """Maps [rows, hidden] to the same shape."""
        return self.down(self.activate(self.up(inputs)))

    def add_to_residual(self, inputs: Tensor, residual: Tensor) -> Tensor:
        """Computes the block's output plus `residual`, both [rows, hidden]."""
        return self.down.add_to_residual(self.activate(self.up(inputs)), residual)
