"""Tensors of a model in one library's arrays, and their preparation for use."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

ArrayT = TypeVar("ArrayT")
WeightT = TypeVar("WeightT")


class ModelTensors(Protocol[ArrayT, WeightT]):
    """Tensors by their names in Hugging Face checkpoints. Raises InvalidCheckpoint naming the tensor."""

    def read(self, name: str, shape: tuple[int, ...]) -> ArrayT:
        """Reads one tensor and converts it."""
        ...

    def precise(self, name: str, shape: tuple[int, ...]) -> ArrayT:
        """Reads one tensor in fp32, whatever the others are converted to."""
        ...

    def stored(self, name: str, shape: tuple[int, ...], precision: str) -> ArrayT:
        """Reads one tensor in `precision`, a name as in config.json, where that is no finer than the others'."""
        ...

    def matrix(self, name: str, shape: tuple[int, int]) -> WeightT:
        """Reads the weight [out, in] of module `name`. Converts it unless a product can use it quantized."""
        ...

    def stack(self, weights: Sequence[WeightT]) -> WeightT:
        """Stacks the rows of weights that share their inputs."""
        ...

    def ones(self, size: int) -> ArrayT:
        """Returns a vector of ones, in the type of what is read."""
        ...

    def join(self, vectors: Sequence[ArrayT]) -> ArrayT:
        """Joins vectors end to end."""
        ...

    def raised(self, vector: ArrayT, offset: float) -> ArrayT:
        """Adds an offset in fp32."""
        ...

    def scaled(self, vector: ArrayT, factor: float) -> ArrayT:
        """Multiplies by a factor in fp32."""
        ...

    def reordered(self, weight: WeightT, rows: NDArray[np.int64]) -> WeightT:
        """Takes the given rows of a weight, in this order."""
        ...

    def picked(self, vector: ArrayT, places: NDArray[np.int64]) -> ArrayT:
        """Takes the numbers at the given places of a vector, in this order."""
        ...
