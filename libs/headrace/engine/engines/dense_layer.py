"""A dense layer over one vector. Sums run in fp64 and in one order, whatever the processor."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

DenseFunction = Literal["identity", "tanh", "relu", "gelu"]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DenseNorm:
    """Layer norm (Ba et al., 2016)."""

    weight: Floats
    bias: Floats | None
    epsilon: float

    def __call__(self, vector: Doubles) -> Doubles:
        centered = vector - np.add.reduce(vector) / len(vector)
        variance = np.add.reduce(centered * centered) / len(vector)
        scaled: Doubles = centered / np.sqrt(variance + self.epsilon) * self.weight
        return scaled if self.bias is None else scaled + self.bias


@dataclass(frozen=True, slots=True)
class DenseLayer:
    """Computes norm(function(weight x + bias))."""

    weight: Floats
    """[out, in]"""
    bias: Floats | None = None
    """[out]"""
    function: DenseFunction = "identity"
    norm: DenseNorm | None = None

    @property
    def out_size(self) -> int:
        return len(self.weight)

    @property
    def parameter_count(self) -> int:
        norm = () if self.norm is None else (self.norm.weight, self.norm.bias)
        return sum(array.size for array in (self.weight, self.bias, *norm) if array is not None)

    def __call__(self, vector: Doubles) -> Doubles:
        """Maps a vector [in] to [out]. Propagates NaN and infinity."""
        with np.errstate(invalid="ignore", over="ignore"):
            # No product of BLAS: its order depends on the processor.
            sums: Doubles = np.add.reduce(self.weight * vector, axis=1)
            found = _apply(self.function, sums if self.bias is None else sums + self.bias)
            return found if self.norm is None else self.norm(found)


def _apply(function: DenseFunction, vector: Doubles) -> Doubles:
    found = vector
    if function == "tanh":
        found = np.tanh(vector)
    elif function == "relu":
        found = np.maximum(vector, 0.0)
    elif function == "gelu":
        found = vector * np.array([0.5 * (1.0 + math.erf(x / math.sqrt(2.0))) for x in vector.tolist()])
    return found
