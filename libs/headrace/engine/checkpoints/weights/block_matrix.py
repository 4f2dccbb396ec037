"""A weight in blocks of GGUF, for torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.engine.checkpoints.weights.quantized_arrays import BlockArrays, reordered_blocks


@dataclass(frozen=True, slots=True)
class BlockMatrix:
    """A weight [out, in] in the blocks that its file has, which the CPU kernels multiply as they are."""

    arrays: BlockArrays

    @classmethod
    def stack(cls, weights: Sequence[Self]) -> Self:
        """Stacks the rows of weights that share their inputs."""
        return cls(BlockArrays.stack([weight.arrays for weight in weights]))

    @property
    def byte_count(self) -> int:
        return sum(part.nbytes for run in self.arrays.runs for part in run.parts)

    def dequantize(self) -> Tensor:
        """Returns float32 [out, in]."""
        return torch.from_numpy(self.arrays.dequantize())

    def reordered(self, rows: NDArray[np.int64]) -> Self:
        """Takes the rows at `rows` [rows], a permutation that leaves each row in its run of blocks."""
        return type(self)(reordered_blocks(self.arrays, rows))
