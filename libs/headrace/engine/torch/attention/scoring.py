"""Attention scores from queries and keys."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Scoring:
    scale: float
    """Factor applied to the products of queries and keys."""
    soft_cap: float | None = None
    """Bound of the scores: s becomes cap * tanh(s / cap), as in Gemma 2."""

    def __call__(self, queries: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
        """Maps queries [batch, queries, head] and keys [batch, keys, head] to scores [batch, queries, keys]."""
        if self.soft_cap is None:
            return torch.baddbmm(mask, queries, keys.transpose(1, 2), alpha=self.scale)
        scores = torch.bmm(queries, keys.transpose(1, 2)).mul_(self.scale / self.soft_cap)
        return scores.tanh_().mul_(self.soft_cap).add_(mask)
