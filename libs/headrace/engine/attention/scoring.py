"""Attention scores from queries and keys."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Scoring:
    scale: float
    """Factor applied to the products of queries and keys."""
    soft_cap: float | None = None
    """Scores s become cap * tanh(s / cap), as in Gemma 2."""

    def __call__(self, queries: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
        """[batch, queries, head] and [batch, keys, head] to [batch, queries, keys]."""
        if self.soft_cap is None:
            return torch.baddbmm(mask, queries, keys.transpose(1, 2), alpha=self.scale)
        scores = torch.bmm(queries, keys.transpose(1, 2)).mul_(self.scale / self.soft_cap)
        return scores.tanh_().mul_(self.soft_cap).add_(mask)
