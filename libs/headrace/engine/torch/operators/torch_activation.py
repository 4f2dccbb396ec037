"""Activations through torch."""

import torch
from torch import Tensor
from torch.nn import functional

from headrace.engine.checkpoints.facts.activation import Activation

CLAMP = 7.0
"""Largest gate, and size of a factor, of `clamped_swish`."""


def activated(inputs: Tensor, activation: Activation) -> Tensor:
    """Activates each of [rows, size] numbers."""
    match activation:
        case "silu":
            return functional.silu(inputs)
        case "gelu":
            return functional.gelu(inputs)
        case "gelu_tanh":
            return functional.gelu(inputs, approximate="tanh")
        case "relu":
            return functional.relu(inputs)
        case "relu_squared":
            return functional.relu(inputs).square_()
        case "clamped_swish":
            low = inputs.clamp(max=CLAMP)
            return low * torch.sigmoid(low * 1.702)


def gated(inputs: Tensor, activation: Activation) -> Tensor:
    """Activates the first half of each row, times the second half: [rows, 2 x size] to [rows, size]. Factors may
    be clamped, see `Activation`."""
    gates, factors = inputs.chunk(2, dim=-1)
    if activation == "clamped_swish":
        factors = factors.clamp(-CLAMP, CLAMP) + 1
    return activated(gates, activation).mul_(factors)
