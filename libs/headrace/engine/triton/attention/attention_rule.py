"""Rule by which a layer's queries see keys."""

from dataclasses import dataclass

from torch import Tensor

ALL_TOKENS = 1 << 30


@dataclass(frozen=True, slots=True)
class AttentionRule:
    """Scores of one layer."""

    scale: float
    window: int | None = None
    """Tokens that a query sees, itself included. None: all."""
    soft_cap: float | None = None
    """Bound of the scores: s becomes cap * tanh(s / cap), as in Gemma 2."""
    sinks: Tensor | None = None
    """Scores fp32 [heads] of keys without values, on the device of the queries."""

    @property
    def token_count(self) -> int:
        """Number of tokens that a query sees, itself included, where all are more than any text has."""
        return ALL_TOKENS if self.window is None else self.window
