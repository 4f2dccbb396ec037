"""Between the two products of a gated feed-forward block."""

from typing import Literal

Activation = Literal["silu", "gelu_tanh"]
