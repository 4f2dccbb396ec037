"""Protocol of a source of guesses: the batcher asks once a step, for all sequences that there may be guesses for."""

from collections.abc import Mapping
from typing import Protocol

from headrace.engine.batching.sequence import Sequence

Guesses = dict[Sequence, tuple[int, ...]]
"""Tokens that may follow each sequence, the nearest first."""


class Drafter(Protocol):
    def may_guess(self, sequence: Sequence) -> bool:
        """Whether `propose` may have a guess for a decoding sequence. Asked in every step, so it takes next to nothing
        where the answer is no."""
        ...

    def propose(self, limits: Mapping[Sequence, int]) -> Guesses:
        """Guesses tokens for sequences that `may_guess` was true for, at most `limits` each. Those without one may be
        left out. Each sequence's block table has room for its tokens and `limits` more.

        Each sequence's block table has room for its tokens and `limits` more.
        """
        ...

    def observe(self, sequence: Sequence, accepted_count: int) -> None:
        """Learns how many of the last guesses for `sequence` were right. Its tokens already contain them."""
        ...

    def forget(self, sequence: Sequence) -> None:
        """Drops what is known of a sequence: it has ended, or lost its blocks."""
        ...
