"""From the hidden states of an input to its embedding."""

import enum

import torch
from torch import Tensor

SMALLEST_LENGTH = 1e-12
"""What shorter vectors are divided by instead of their length."""


class Pooling(enum.Enum):
    """Which hidden states count. The values are sentence-transformers' own."""

    CLS = "cls"
    """The first token's."""
    MEAN = "mean"
    MAX = "max"
    """Element by element."""
    LAST = "lasttoken"

    def __call__(self, hidden: Tensor) -> Tensor:
        """[tokens, hidden] of one input to fp32 [hidden]."""
        if self is Pooling.CLS:
            return hidden[0].float()
        if self is Pooling.LAST:
            return hidden[-1].float()
        return hidden.float().mean(dim=0) if self is Pooling.MEAN else hidden.float().amax(dim=0)


def normalized(vector: Tensor) -> Tensor:
    """`vector` [hidden] at unit length."""
    length: Tensor = torch.linalg.vector_norm(vector)
    return vector / length.clamp_min(SMALLEST_LENGTH)
