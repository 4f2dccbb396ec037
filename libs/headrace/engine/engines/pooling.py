"""Pools the hidden states of an input into its embedding. Sums run in fp64 and in one order, whatever the processor."""

import numpy as np
from numpy.typing import NDArray

from headrace.engine.checkpoints.facts.pooling import Pooling

MIN_LENGTH = 1e-12
"""Smallest divisor: shorter vectors are divided by this instead of by their own length."""

Floats = NDArray[np.float32]


def pool(hidden: Floats, pooling: Pooling) -> Floats:
    """Maps fp32 hidden states [tokens, hidden] of one input to one vector [hidden]. Propagates NaN and infinity."""
    if pooling is Pooling.CLS or pooling is Pooling.LAST:
        return np.array(hidden[0 if pooling is Pooling.CLS else -1])
    with np.errstate(invalid="ignore"):
        found = hidden.max(axis=0) if pooling is Pooling.MAX else hidden.astype(np.float64).mean(axis=0)
    return np.array(found, np.float32)


def normalized(vector: Floats) -> Floats:
    """Scales an fp32 vector [hidden] to unit length. Propagates NaN and infinity."""
    numbers = vector.astype(np.float64)
    with np.errstate(invalid="ignore"):
        # Not numpy.linalg.norm, which is a product of BLAS: its order depends on the processor.
        length = np.sqrt(np.add.reduce(numbers * numbers))
        return np.array(numbers / max(length, MIN_LENGTH), np.float32)
