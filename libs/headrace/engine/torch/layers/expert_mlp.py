"""A sparse mixture of feed-forward blocks (Shazeer et al., 2017), as in Mixtral and Qwen3-MoE."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from headrace.engine.torch.layers.gated_mlp import Mlp
from headrace.engine.torch.layers.linear import Linear


class Mixture(Protocol):
    """Experts as a feed-forward block, see Mlp."""

    @property
    def router(self) -> Linear:
        """Product from hidden states to scores [rows, experts]."""
        ...

    def __call__(self, inputs: Tensor) -> Tensor:
        """Maps [rows, hidden] to the same shape, routed by the same inputs."""
        ...

    def add_to_residual(self, inputs: Tensor, residual: Tensor) -> Tensor:
        """Computes the experts' output plus `residual` [rows, hidden]."""
        ...

    def mix(self, inputs: Tensor, scores: Tensor) -> Tensor:
        """Computes with the experts that `scores` [rows, experts] choose: [rows, hidden] to the same shape."""
        ...


@dataclass(frozen=True, slots=True)
class ExpertMlp:
    """Sends each row through the experts with the highest router scores and sums their outputs. Those scores weight the
    outputs, or the inputs.

    An expert computes only the rows that chose it. A row's outputs are summed in expert order, so its result does not
    depend on the choices of other rows.
    """

    router: Linear
    """Product from hidden to one score per expert, and to that of a shared expert's gate."""
    experts: Sequence[Mlp]
    """Experts, the shared one last."""
    place_count: int
    """Experts that compute each row, the shared one included."""
    route: Callable[[Tensor], tuple[Tensor, Tensor]]
    """Maps router scores to the weights and the indices of these experts, both [rows, places]."""
    scales_inputs: bool = False
    """Whether an expert's inputs are multiplied by its weight, not its outputs."""

    def __call__(self, inputs: Tensor) -> Tensor:
        """Maps [rows, hidden] to the same shape."""
        return self.mix(inputs, self.router(inputs))

    def mix(self, inputs: Tensor, scores: Tensor) -> Tensor:
        """Computes with the experts that `scores` [rows, experts] choose: [rows, hidden] to the same shape."""
        weights, chosen = self.route(scores)
        outputs = torch.zeros_like(inputs)
        for expert, places in self._group_by_expert(chosen):
            rows = places // self.place_count
            expert_weights = weights.view(-1, 1).index_select(0, places)
            outputs.index_add_(0, rows, self._weighted(expert, inputs.index_select(0, rows), expert_weights))
        return outputs

    def _weighted(self, expert: Mlp, inputs: Tensor, weights: Tensor) -> Tensor:
        """Computes an expert's `inputs` [rows, hidden], which may be overwritten, with `weights` [rows, 1]."""
        return expert(inputs.mul_(weights)) if self.scales_inputs else expert(inputs).mul_(weights)

    def add_to_residual(self, inputs: Tensor, residual: Tensor) -> Tensor:
        return self(inputs).add_(residual)

    def _group_by_expert(self, chosen: Tensor) -> list[tuple[Mlp, Tensor]]:
        """Lists the experts that any row chose, with their indices in the flattened `chosen`, both ascending."""
        flat = chosen.flatten()
        counts = torch.bincount(flat, minlength=len(self.experts)).tolist()
        places = torch.split(torch.argsort(flat, stable=True), counts)
        return [(expert, part) for expert, part in zip(self.experts, places, strict=True) if len(part)]
