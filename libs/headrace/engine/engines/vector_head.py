"""The end of a model that makes one vector of each input: an embedding, or the score of a pair of texts."""

from dataclasses import dataclass

import numpy as np

from headrace.engine.checkpoints.facts.pooling import Pooling
from headrace.engine.engines.dense_layer import DenseLayer, Floats
from headrace.engine.engines.pooling import normalized, pool


@dataclass(frozen=True, slots=True)
class VectorHead:
    """Pools hidden states and applies dense layers."""

    pooling: Pooling
    layers: tuple[DenseLayer, ...] = ()
    normalizes: bool = False
    """Whether vectors are scaled to unit length at the end."""

    @property
    def parameter_count(self) -> int:
        return sum(layer.parameter_count for layer in self.layers)

    @property
    def byte_count(self) -> int:
        """Memory that the layers take, in bytes."""
        return self.parameter_count * np.dtype(np.float32).itemsize

    def size(self, hidden_size: int) -> int:
        """Returns the number of elements of a vector."""
        return self.layers[-1].out_size if self.layers else hidden_size

    def __call__(self, hidden: Floats) -> Floats:
        """Maps fp32 hidden states [tokens, hidden] of one input to its vector, fp32."""
        vector = pool(hidden, self.pooling)
        if self.layers:
            numbers = vector.astype(np.float64)
            for layer in self.layers:
                numbers = layer(numbers)
            vector = numbers.astype(np.float32)
        return normalized(vector) if self.normalizes else vector
