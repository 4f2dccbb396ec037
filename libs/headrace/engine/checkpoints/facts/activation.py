"""The activation function between the products of a feed-forward block."""

from typing import Literal

Activation = Literal["silu", "gelu", "gelu_tanh", "relu", "relu_squared"]
