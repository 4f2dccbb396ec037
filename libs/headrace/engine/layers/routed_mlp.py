"""A feed-forward block that is computed in one way for some rows and in another for the rest."""

from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.engine.layers.gated_mlp import GatedMlp


@dataclass(frozen=True, slots=True)
class RoutedMlp:
    """Each row goes through one of several blocks, so that no row's bits depend on what another one needs."""

    routes: tuple[tuple[Tensor, GatedMlp], ...]
    """Rows, int64, and their block. Together all rows, each once."""

    def __call__(self, inputs: Tensor) -> Tensor:
        outputs = torch.empty_like(inputs)
        for rows, mlp in self.routes:
            outputs.index_copy_(0, rows, mlp(inputs.index_select(0, rows)))
        return outputs

    def add(self, inputs: Tensor, residual: Tensor) -> Tensor:
        outputs = torch.empty_like(residual)
        for rows, mlp in self.routes:
            outputs.index_copy_(0, rows, mlp.add(inputs.index_select(0, rows), residual.index_select(0, rows)))
        return outputs
