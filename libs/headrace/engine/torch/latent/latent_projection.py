"""Queries in the latent space, and the latent vector as the one key and value of all heads (DeepSeek-V2, 2024)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.engine.checkpoints.facts.latent_config import LatentConfig
from headrace.engine.torch.layers.linear import Linear


@dataclass(frozen=True, slots=True)
class LatentProjection:
    """Query, key and value projections as one product, with the heads' key products absorbed into their queries."""

    latent: LatentConfig
    query_inputs: Callable[[Tensor], Tensor]
    """Maps hidden states to the inputs of `queries`: themselves, or a normalized latent vector."""
    queries: Linear
    """Rotating elements of all query heads, then all others."""
    absorbed: Sequence[Linear]
    """Product of each head, from its elements that do not rotate to the latent space."""
    keys: Linear
    """Rotating elements of the key, then the latent vector."""
    key_norm: Callable[[Tensor], Tensor]
    """Norm of the latent vector."""

    def __call__(self, inputs: Tensor) -> Tensor:
        """Maps [rows, hidden] to [rows, (heads + 2) x head]: queries, and the key and the value of all heads."""
        sizes, row_count, head_count = self.latent, len(inputs), len(self.absorbed)
        projected = self.queries(self.query_inputs(inputs))
        turning, still = torch.split(projected, [head_count * sizes.rotary_size, head_count * sizes.still_size], dim=1)
        parts = still.view(row_count, head_count, -1).unbind(1)
        absorbed = [linear(part.contiguous()) for linear, part in zip(self.absorbed, parts, strict=True)]
        queries = torch.cat([turning.reshape(row_count, head_count, -1), torch.stack(absorbed, dim=1)], dim=2)
        key_turning, vector = torch.split(self.keys(inputs), [sizes.rotary_size, sizes.kv_rank], dim=1)
        normed = self.key_norm(vector.contiguous())
        return torch.cat([queries.flatten(1), key_turning, normed, torch.zeros_like(key_turning), normed], dim=1)

    def add_to_residual(self, inputs: Tensor, residual: Tensor) -> Tensor:
        return self(inputs).add_(residual)
