"""Integers of a step's decodes that the GPU kernels read, and the splits that decodes have."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Integers = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class DecodeWork:
    """Texts that decodes read, and the splits of all of them in one list: a long text costs the others nothing."""

    tables: Tensor
    """Block numbers of all texts, int32 [numbers]."""
    decodes: Tensor
    """Tokens of each text, its own decode's included; its first block number in `tables`; and its first split, int32
    [sequences + 1, 3]. The last row has the number of all splits in the last place."""
    splits: Tensor
    """Sequence of each split, and its index among those of its text, int32 [splits, 2]. There may be more room than
    splits."""
    counters: Tensor
    """Zeros int32 [sequences x kv heads or more]: splits that are done while a kernel runs. It leaves zeros."""


def split_decodes(lengths: Integers, first_blocks: Integers, split_tokens: int) -> tuple[Integers, Integers]:
    """Lists decodes and splits, see `DecodeWork`, of texts of so many tokens, both int32 [sequences]. A text without
    tokens has a split without tokens."""
    counts = np.maximum(-(-lengths // split_tokens), 1)
    ends = np.cumsum(counts, dtype=np.int32)
    decodes = np.zeros((len(lengths) + 1, 3), np.int32)
    decodes[:-1, 0], decodes[:-1, 1], decodes[1:, 2] = lengths, first_blocks, ends
    sequences = np.repeat(np.arange(len(lengths), dtype=np.int32), counts)
    places = np.arange(len(sequences), dtype=np.int32)
    return decodes, np.stack([sequences, places - decodes[sequences, 2]], axis=1)
