"""Tokens that grammars do not allow next."""

import functools
import os

import numpy as np
from llguidance import LLExecutor
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask, fill_next_token_bitmask_par
from numpy.typing import NDArray

from headrace.engine.batching.sequence import Sequence
from headrace.engine.grammar.token_matcher import TokenMatcher


def find_forbidden(sequences: list[Sequence], vocabulary_size: int) -> tuple[list[int], NDArray[np.bool_]]:
    """Finds the indices of the sequences that have a grammar, and for each of those which tokens it does not allow:
    [rows, vocabulary]. A matcher that has an error allows the end and nothing else."""
    rows: list[int] = []
    matchers: list[TokenMatcher] = []
    for row, sequence in enumerate(sequences):
        if sequence.matcher is not None:
            sequence.matcher.follow(sequence.output_token_ids)
            rows.append(row)
            matchers.append(sequence.matcher)
    if not rows:
        return rows, np.empty((0, vocabulary_size), np.bool_)
    bitmask = fill_bitmask(matchers, vocabulary_size)
    bits = np.unpackbits((~bitmask).view(np.uint8), axis=1, count=vocabulary_size, bitorder="little")
    return rows, bits.view(np.bool_)


def fill_bitmask(matchers: list[TokenMatcher], vocabulary_size: int) -> NDArray[np.int32]:
    """Returns one row of 32 tokens per word for each matcher, lowest bit first."""
    bitmask = allocate_token_bitmask(len(matchers), vocabulary_size)
    if len(matchers) == 1:
        fill_next_token_bitmask(matchers[0].matcher, bitmask)
    else:
        targets = [(matcher.matcher, row) for row, matcher in enumerate(matchers)]
        fill_next_token_bitmask_par(_executor(), targets, bitmask)
    return bitmask


@functools.cache
def _executor() -> LLExecutor:
    """The threads that work on several rows at once."""
    return LLExecutor(max(1, len(os.sched_getaffinity(0)) // 2))
