"""Bound of the reasoning in an answer."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReasoningBudget:
    """See `ReasoningLimit` of the protocol."""

    max_token_count: int
    start_token_ids: tuple[int, ...]
    end_token_ids: tuple[int, ...]
