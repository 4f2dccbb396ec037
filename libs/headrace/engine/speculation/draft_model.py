"""The Protocol of a model that drafts, as the speculator asks it."""

from collections.abc import Mapping
from typing import Protocol

from headrace.engine.batching.drafter import Drafts
from headrace.engine.batching.sequence import Sequence


class DraftModel(Protocol):
    def step_seconds(self, row_count: int) -> float:
        """Returns the seconds in which `row_count` sequences get one draft token each. 0 if no step was measured yet,
        so that there will be one."""
        ...

    def seconds_to_enter(self) -> float:
        """Returns the seconds that the first step of each call takes longer than the others."""
        ...

    def seconds_to_begin(self, sequence: Sequence) -> float:
        """Returns the seconds of reading before the first draft token that are not part of every step."""
        ...

    def room(self, sequence: Sequence) -> int:
        """Counts the draft tokens that may follow a sequence."""
        ...

    def propose(self, limits: Mapping[Sequence, int]) -> Drafts:
        """Makes at most `limits` draft tokens for each sequence. Sequences that it has not read are left out."""
        ...

    def forget(self, sequence: Sequence) -> None:
        """Drops the state of a sequence that ended or lost its blocks."""
        ...

    def sleep(self) -> None:
        """Frees the memory of the KV cache. Requires that every sequence is forgotten. No drafts until `wake`."""
        ...

    def wake(self) -> None:
        """Takes memory for the KV cache again."""
        ...
