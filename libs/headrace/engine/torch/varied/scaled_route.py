"""Weights of experts that are scaled by a number of each."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class ScaledRoute:
    """Multiplies the weights of the chosen experts, after they are normalized (Gemma 4, 2026)."""

    route: Callable[[Tensor], tuple[Tensor, Tensor]]
    """Maps router scores to the weights and the indices of experts, both [rows, places]."""
    scales: Tensor
    """Factor [experts] of each expert's weight."""

    def __call__(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Maps router scores [rows, experts] to weights and indices, both [rows, places]."""
        weights, chosen = self.route(scores)
        return weights * self.scales[chosen], chosen
