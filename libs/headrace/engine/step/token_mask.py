"""Tokens that grammars and bounds of reasoning do not allow next."""

import functools
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headrace.engine.batching.sequence import Sequence
from headrace.engine.grammar.token_matcher import TokenMatcher
from headrace.engine.memory.host_cores import usable_core_count

if TYPE_CHECKING:
    from llguidance import LLExecutor


def find_forbidden(sequences: list[Sequence], vocabulary_size: int) -> tuple[list[int], NDArray[np.bool_]]:
    """Finds the indices of the sequences that are constrained, and for each of them the tokens that may not come next:
    [rows, vocabulary]. A matcher that has an error allows the end and nothing else."""
    matched = [row for row, sequence in enumerate(sequences) if sequence.matcher is not None]
    forced = [(row, only) for row, sequence in enumerate(sequences) if (only := sequence.forced_token_id) is not None]
    forbidden = _forbidden_by_grammar([sequences[row] for row in matched], vocabulary_size)
    if not forced:
        return matched, forbidden
    rows = sorted({*matched, *(row for row, _ in forced)})
    masks = np.zeros((len(rows), vocabulary_size), np.bool_)
    masks[np.searchsorted(rows, matched)] = forbidden
    for row, only in forced:
        mask = masks[rows.index(row)]
        mask[:] = True
        mask[only] = False
    return rows, masks


def _forbidden_by_grammar(sequences: list[Sequence], vocabulary_size: int) -> NDArray[np.bool_]:
    matchers = [sequence.matcher for sequence in sequences if sequence.matcher is not None]
    for matcher, sequence in zip(matchers, sequences, strict=True):
        matcher.follow(sequence.output_token_ids)
    if not matchers:
        return np.empty((0, vocabulary_size), np.bool_)
    bitmask = fill_bitmask(matchers, vocabulary_size)
    bits = np.unpackbits((~bitmask).view(np.uint8), axis=1, count=vocabulary_size, bitorder="little")
    forbidden = bits.view(np.bool_)
    for matcher, row in zip(matchers, forbidden, strict=True):
        matcher.narrow(row)
    return forbidden


def fill_bitmask(matchers: list[TokenMatcher], vocabulary_size: int) -> NDArray[np.int32]:
    """Returns one row of 32 tokens per word for each matcher, lowest bit first."""
    # Importing it takes a tenth of the start of a worker; where there are matchers, it has been imported.
    from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask, fill_next_token_bitmask_par

    bitmask = allocate_token_bitmask(len(matchers), vocabulary_size)
    if len(matchers) == 1:
        fill_next_token_bitmask(matchers[0].matcher, bitmask)
    else:
        targets = [(matcher.matcher, row) for row, matcher in enumerate(matchers)]
        fill_next_token_bitmask_par(_executor(), targets, bitmask)
    return bitmask


@functools.cache
def _executor() -> "LLExecutor":
    """The threads that work on several rows at once."""
    # As in `fill_bitmask`.
    from llguidance import LLExecutor

    return LLExecutor(max(1, usable_core_count() // 2))
