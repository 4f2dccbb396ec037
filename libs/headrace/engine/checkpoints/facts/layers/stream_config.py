"""The facts about several streams of hidden states."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """Streams of hidden states, of which each layer computes one and predicts the others: alternating updates (AltUp,
    Baykal et al., 2023). Beside attention stands a product of low rank (LAuReL, Menghani et al., 2024)."""

    count: int
    active: int
    """Stream that the layers compute."""
    scales_output: bool
    """Whether the computed stream is scaled before it meets a layer's own input."""
    rank: int
    """Rank of the product beside attention."""
