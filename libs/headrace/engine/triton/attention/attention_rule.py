"""Rule by which a layer's queries see keys."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AttentionRule:
    """Scores of one layer."""

    scale: float
    window: int | None = None
    """Tokens that a query sees, itself included. None: all."""
    soft_cap: float | None = None
    """Bound of the scores: s becomes cap * tanh(s / cap), as in Gemma 2."""
