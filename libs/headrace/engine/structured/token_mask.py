"""Takes what grammars do not allow out of a step's logits."""

import functools
import math
import os

import numpy as np
import torch
from llguidance import LLExecutor
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask, fill_next_token_bitmask_par
from numpy.typing import NDArray
from torch import Tensor

from headrace.engine.sequence import Sequence
from headrace.engine.structured.token_matcher import TokenMatcher


def constrain(logits: Tensor, sequences: list[Sequence]) -> Tensor:
    """Sets the logits of tokens that a row's grammar does not allow to minus infinity. Leaves `logits` as it is.

    One row of `logits` [rows, vocabulary] per sequence. A matcher that has an error allows the end and nothing else.
    """
    rows: list[int] = []
    matchers: list[TokenMatcher] = []
    for row, sequence in enumerate(sequences):
        if sequence.matcher is not None:
            sequence.matcher.follow(sequence.output_token_ids)
            rows.append(row)
            matchers.append(sequence.matcher)
    if not rows:
        return logits
    forbidden = _find_forbidden(fill_bitmask(matchers, logits.shape[-1]), logits)
    if len(rows) == len(logits):
        return logits.masked_fill(forbidden, -math.inf)
    constrained = logits.clone()
    constrained[rows] = logits[rows].masked_fill(forbidden, -math.inf)
    return constrained


def fill_bitmask(matchers: list[TokenMatcher], vocab_size: int) -> NDArray[np.int32]:
    """One row of 32 tokens per word for each matcher, lowest bit first."""
    bitmask = allocate_token_bitmask(len(matchers), vocab_size)
    if len(matchers) == 1:
        fill_next_token_bitmask(matchers[0].matcher, bitmask)
    else:
        targets = [(matcher.matcher, row) for row, matcher in enumerate(matchers)]
        fill_next_token_bitmask_par(_executor(), targets, bitmask)
    return bitmask


def _find_forbidden(bitmask: NDArray[np.int32], logits: Tensor) -> Tensor:
    """Booleans [rows, vocabulary] on the device of `logits`, true where no bit is set."""
    bits = np.unpackbits((~bitmask).view(np.uint8), axis=1, count=logits.shape[-1], bitorder="little")
    return torch.from_numpy(bits.view(np.bool_)).to(logits.device)


@functools.cache
def _executor() -> LLExecutor:
    """The threads that work on several rows at once."""
    return LLExecutor(max(1, len(os.sched_getaffinity(0)) // 2))
