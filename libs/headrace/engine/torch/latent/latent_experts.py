"""A mixture of experts within a latent vector, as in Nemotron 3 Super (NVIDIA, 2026)."""

from dataclasses import dataclass

from torch import Tensor

from headrace.engine.torch.layers.expert_mlp import Mixture
from headrace.engine.torch.layers.gated_mlp import Mlp
from headrace.engine.torch.layers.linear import Linear


@dataclass(frozen=True, slots=True)
class LatentExperts:
    """Experts that compute a smaller vector than hidden states, by which they are chosen, and which the shared one
    reads."""

    down: Linear
    """Product from hidden states to that vector."""
    experts: Mixture
    """Experts without the shared one."""
    up: Linear
    """Product from the sum of the experts' outputs to hidden states."""
    shared: Mlp | None

    def __call__(self, inputs: Tensor) -> Tensor:
        """Maps [rows, hidden] to the same shape."""
        mixed = self.up(self.experts.mix(self.down(inputs), self.experts.router(inputs)))
        return mixed if self.shared is None else mixed.add_(self.shared(inputs))

    def add_to_residual(self, inputs: Tensor, residual: Tensor) -> Tensor:
        """Computes the block's output plus `residual`, both [rows, hidden]."""
        return self(inputs).add_(residual)
