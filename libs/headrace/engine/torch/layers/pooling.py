"""Pools the hidden states of an input into its embedding."""

import torch
from torch import Tensor

from headrace.engine.checkpoints.facts.pooling import Pooling

SMALLEST_LENGTH = 1e-12
"""Smallest divisor: shorter vectors are divided by this instead of by their own length."""


def pool(hidden: Tensor, pooling: Pooling) -> Tensor:
    """Maps hidden states [tokens, hidden] of one input to fp32 [hidden]."""
    if pooling is Pooling.CLS:
        return hidden[0].float()
    if pooling is Pooling.LAST:
        return hidden[-1].float()
    return hidden.float().mean(dim=0) if pooling is Pooling.MEAN else hidden.float().amax(dim=0)


def normalized(vector: Tensor) -> Tensor:
    """Scales `vector` [hidden] to unit length."""
    length: Tensor = torch.linalg.vector_norm(vector)
    return vector / length.clamp_min(SMALLEST_LENGTH)
