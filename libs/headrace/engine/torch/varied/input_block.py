"""The block that adds a layer's own input to its hidden states."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.engine.torch.layers.linear import Linear
from headrace.engine.torch.operators.operators import RowNorm


@dataclass(frozen=True, slots=True)
class InputBlock:
    """A gated product of a layer's own input: hidden states make the gates."""

    gates: Linear
    gate: Callable[[Tensor], Tensor]
    """Activates gates and multiplies by inputs: [rows, 2 x size] to [rows, size]."""
    output: Linear
    norm: RowNorm

    def __call__(self, hidden: Tensor, own: Tensor) -> Tensor:
        """Maps hidden states [rows, hidden] and the layer's own input [rows, size] to what is added, [rows, hidden]."""
        return self.norm(self.output(self.gate(torch.cat([self.gates(hidden), own], dim=1))))
