"""Bound of the reasoning that precedes an answer."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReasoningLimit:
    """Tokens after which the end of a reasoning section follows. A function of the output alone, so that it holds for
    whatever order, batch or worker the tokens come from."""

    max_tokens: int
    start: tuple[int, ...]
    """Token ids that begin the section, if they are the first of the output. Empty: the prompt began it."""
    end: tuple[int, ...]
    """Token ids that end it, at least one."""

    def forced_token_id(self, output_token_ids: Sequence[int]) -> int | None:
        """Returns the only token that may follow an output, or None where any may."""
        begin = len(self.start)
        over_count = len(output_token_ids) - begin - self.max_tokens
        if not 0 <= over_count < len(self.end) or tuple(output_token_ids[:begin]) != self.start:
            return None
        thought = tuple(output_token_ids[begin : begin + self.max_tokens])
        if self._ends_within(thought):
            return None
        index = self._begun_count(thought) + over_count
        return self.end[index] if index < len(self.end) else None

    def _ends_within(self, thought: tuple[int, ...]) -> bool:
        size = len(self.end)
        return any(thought[at : at + size] == self.end for at in range(len(thought) - size + 1))

    def _begun_count(self, thought: tuple[int, ...]) -> int:
        """Returns how many tokens of the end stand at the end of a thought already."""
        counts = range(min(len(self.end) - 1, len(thought)), 0, -1)
        return next((count for count in counts if thought[-count:] == self.end[:count]), 0)
