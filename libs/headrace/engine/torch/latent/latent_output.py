"""Outputs of latent attention: weighted latent vectors, multiplied into each head's values."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.engine.checkpoints.facts.latent_config import LatentConfig
from headrace.engine.torch.layers.linear import Linear


@dataclass(frozen=True, slots=True)
class LatentOutput:
    """Output projection, with the heads' value products before it."""

    latent: LatentConfig
    values: Sequence[Linear]
    """Product of each head, from the latent space to its values."""
    output: Linear

    def __call__(self, inputs: Tensor) -> Tensor:
        """Maps [rows, heads x head] to [rows, hidden]."""
        return self.output(self._values(inputs))

    def add_to_residual(self, inputs: Tensor, residual: Tensor) -> Tensor:
        return self.output.add_to_residual(self._values(inputs), residual)

    def _values(self, inputs: Tensor) -> Tensor:
        heads = inputs.view(len(inputs), len(self.values), -1)[:, :, self.latent.rotary_size :].unbind(1)
        return torch.cat([linear(head.contiguous()) for linear, head in zip(self.values, heads, strict=True)], dim=1)
