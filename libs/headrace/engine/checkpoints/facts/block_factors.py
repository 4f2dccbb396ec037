"""Factors inside the blocks of a layer that no weight of a checkpoint contains."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BlockFactors:
    """Factors as in Falcon-H1 (Technology Innovation Institute, 2025)."""

    attention: float
    """Factor of what attention adds."""
    gate: float
    """Factor of the gates of the feed-forward block, before their activation."""
    down: float
    """Factor of what the feed-forward block adds."""
