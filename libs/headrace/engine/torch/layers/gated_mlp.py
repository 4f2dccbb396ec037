"""The gated feed-forward block: SwiGLU and GeGLU (Shazeer, 2020)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from headrace.engine.torch.layers.linear import Linear


class Mlp(Protocol):
    """A feed-forward block."""

    def __call__(self, inputs: Tensor) -> Tensor:
        """Maps [rows, hidden] to the same shape."""
        ...

    def add_to_residual(self, inputs: Tensor, residual: Tensor) -> Tensor:
        """Computes the block's output plus `residual` [rows, hidden]."""
        ...


@dataclass(frozen=True, slots=True)
class GatedMlp:
    gate_up: Linear
    """Gate and up projections as one product: hidden to 2 x intermediate."""
    down: Linear
    gate: Callable[[Tensor], Tensor]
    """Activates the gates and multiplies by the up projection: [rows, 2 x intermediate] to [rows, intermediate]."""

    def __call__(self, inputs: Tensor) -> Tensor:
        return self.down(self.gate(self.gate_up(inputs)))

    def add_to_residual(self, inputs: Tensor, residual: Tensor) -> Tensor:
        return self.down.add_to_residual(self.gate(self.gate_up(inputs)), residual)
