"""Protocol of a source of drafts: the batcher asks once a step, for all sequences that there may be drafts for."""

from collections.abc import Mapping
from typing import Protocol

from headrace.engine.batching.sequence import Sequence

Drafts = dict[Sequence, tuple[int, ...]]
"""Tokens that may follow each sequence, the nearest first."""


class Drafter(Protocol):
    def may_pay(self, row_count: int, decode_count: int) -> bool:
        """Whether draft tokens could be worth their rows in a step that has `row_count` rows without them, of which
        `decode_count` are decodes. Asked once a step, before anything else."""
        ...

    def may_draft(self, sequence: Sequence) -> bool:
        """Whether `propose` may have a draft for a decoding sequence. Asked in every step, so it takes next to nothing
        where the answer is no."""
        ...

    def propose(self, limits: Mapping[Sequence, int]) -> Drafts:
        """Drafts tokens for sequences that `may_draft` was true for, at most `limits` each. Those without one may be
        left out.

        Each sequence's block table has room for its tokens and `limits` more.
        """
        ...

    def observe(self, sequence: Sequence, accepted_count: int) -> None:
        """Learns how many of the last drafts for `sequence` were right. Its tokens already contain them."""
        ...

    def forget(self, sequence: Sequence) -> None:
        """Drops the state of a sequence: it has ended, or lost its blocks."""
        ...
