"""Pools the hidden states of an input into its embedding."""

import enum

import torch
from torch import Tensor

SMALLEST_LENGTH = 1e-12
"""Length that shorter vectors are divided by instead of their own."""


class Pooling(enum.Enum):
    """Choice of the hidden states that count. The values are sentence-transformers' own."""

    CLS = "cls"
    """Hidden state of the first token."""
    MEAN = "mean"
    MAX = "max"
    """Largest value of each element."""
    LAST = "lasttoken"

    def __call__(self, hidden: Tensor) -> Tensor:
        """Maps hidden states [tokens, hidden] of one input to fp32 [hidden]."""
        if self is Pooling.CLS:
            return hidden[0].float()
        if self is Pooling.LAST:
            return hidden[-1].float()
        return hidden.float().mean(dim=0) if self is Pooling.MEAN else hidden.float().amax(dim=0)


def normalized(vector: Tensor) -> Tensor:
    """Scales `vector` [hidden] to unit length."""
    length: Tensor = torch.linalg.vector_norm(vector)
    return vector / length.clamp_min(SMALLEST_LENGTH)
