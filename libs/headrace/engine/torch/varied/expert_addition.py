"""A feed-forward block with a mixture of experts beside it."""

from dataclasses import dataclass

from torch import Tensor

from headrace.engine.torch.layers.expert_mlp import Mixture
from headrace.engine.torch.layers.gated_mlp import Mlp
from headrace.engine.torch.operators.operators import RowNorm


@dataclass(frozen=True, slots=True)
class ExpertAddition:
    """Sum of both, each with norms of its own before and behind it (Gemma 4, 2026)."""

    mlp_norm: RowNorm
    mlp: Mlp
    post_mlp_norm: RowNorm
    router_norm: RowNorm
    """Norm of what the router reads."""
    expert_norm: RowNorm
    experts: Mixture
    post_expert_norm: RowNorm

    def __call__(self, inputs: Tensor) -> Tensor:
        """Maps hidden states [rows, hidden] that are not normalized to the same shape."""
        scores = self.experts.router(self.router_norm(inputs))
        mixed = self.post_expert_norm(self.experts.mix(self.expert_norm(inputs), scores))
        return self.post_mlp_norm(self.mlp(self.mlp_norm(inputs))) + mixed

    def add_to_residual(self, inputs: Tensor, residual: Tensor) -> Tensor:
        return self(inputs).add_(residual)
