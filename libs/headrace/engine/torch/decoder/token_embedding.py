"""Tables of the tokens' inputs."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from headrace.engine.checkpoints.weights.block_matrix import BlockMatrix
from headrace.engine.checkpoints.weights.quantized_matrix import Weight


class TokenEmbedding(Protocol):
    """Looks the inputs of tokens up."""

    def __call__(self, token_ids: Tensor) -> Tensor:
        """Returns the inputs [tokens, hidden] of int64 [tokens]."""
        ...

    def head(self, rows: slice) -> Weight:
        """Returns some rows as the weight of a head that is tied to the table."""
        ...


@dataclass(frozen=True, slots=True)
class PlainEmbedding:
    """A table [vocabulary, hidden] of plain numbers."""

    weight: Tensor

    def __call__(self, token_ids: Tensor) -> Tensor:
        return functional.embedding(token_ids, self.weight)

    def head(self, rows: slice) -> Weight:
        return self.weight[rows]


class BlockEmbedding:
    """A table in blocks of GGUF, of which rows become fp32 when they are wanted: a tenth to a third of its memory."""

    def __init__(self, blocks: BlockMatrix) -> None:
        (run,) = blocks.arrays.runs
        self._blocks, self._kind = blocks, run.storage
        # A copy: a file that is replaced while it is mapped would end the process.
        self._rows = np.concatenate(run.parts)

    def __call__(self, token_ids: Tensor) -> Tensor:
        # Other formats are read without it.
        import gguf

        kind = gguf.GGMLQuantizationType[self._kind.name]
        return torch.from_numpy(gguf.dequantize(self._rows[token_ids.numpy()], kind))

    def head(self, rows: slice) -> Weight:
        """Returns all rows: groups of processes, which divide them, keep no blocks."""
        return self._blocks
