"""The activation function between the products of a feed-forward block."""

from typing import Literal

Activation = Literal["silu", "gelu", "gelu_tanh", "relu", "relu_squared", "clamped_swish"]
"""The last one is that of gpt-oss (Agarwal et al., 2025), for gates alone: x * sigmoid(1.702 x) of x up to 7, times a
factor within -7 and 7, plus one."""
