"""A weight in GGUF's quantized blocks, as a file has them. It is read without torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from headrace.engine.kernels.block_format import BLOCKS
from headrace.engine.kernels.storage import Storage

_SCALE_PLACES = {Storage.Q6_K: (208, 210), **dict.fromkeys((Storage.Q4_0, Storage.Q5_0, Storage.Q8_0), (0, 2))}
"""Begin and end of the fp16 scales within a block of each kind, in bytes. Others have two scales at the beginning."""


@dataclass(frozen=True, slots=True)
class BlockRun:
    """Consecutive rows of a weight in blocks of one kind."""

    blocks: NDArray[np.uint8]
    """Blocks of each row [rows, bytes]."""
    storage: Storage

    def has_finite_scales(self) -> bool:
        """Whether all numbers that the blocks stand for are finite."""
        begin, end = _SCALE_PLACES.get(self.storage, (0, 4))
        each = self.blocks.reshape(-1, BLOCKS[self.storage].file_bytes)
        exponents = each[:, begin + 1 : end : 2] & 0x7C
        return bool((exponents != 0x7C).all())


@dataclass(frozen=True, slots=True)
class BlockArrays:
    """A weight [out, in] whose rows are blocks, of one kind in each run of rows."""

    runs: tuple[BlockRun, ...]

    @classmethod
    def stack(cls, weights: Sequence[Self]) -> Self:
        """Stacks the rows of weights that share their inputs. Joins runs of one kind that follow each other."""
        runs: list[BlockRun] = []
        for run in (run for weight in weights for run in weight.runs):
            if runs and runs[-1].storage is run.storage:
                runs[-1] = BlockRun(np.concatenate([runs[-1].blocks, run.blocks]), run.storage)
            else:
                runs.append(run)
        return cls(tuple(runs))

    def dequantize(self) -> NDArray[np.float32]:
        """Returns the weight [out, in] in fp32, by the arithmetic of ggml."""
        # Other formats are read without it.
        import gguf

        kinds = gguf.GGMLQuantizationType
        return np.concatenate([gguf.dequantize(run.blocks, kinds[run.storage.name]) for run in self.runs])
