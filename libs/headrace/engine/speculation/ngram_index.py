"""Drafts the tokens that followed the previous occurrence of the last three: prompt lookup (Saxena, 2023).

Costs only a dictionary, and pays off if outputs repeat their prompt: summaries, code edits, extracted fields.
"""

from collections.abc import Sequence


class NgramIndex:
    """Index of the continuation of every three consecutive tokens in one text."""

    def __init__(self) -> None:
        self._followers: dict[tuple[int, int, int], int] = {}
        """Position after the latest occurrence of each three tokens."""
        self._last = (-1, -1, -1)
        """Last three tokens seen. Before the first token it holds ids that no token has."""
        self._seen_count = 0

    def find(self, token_ids: Sequence[int], limit: int) -> tuple[int, ...]:
        """Returns at most `limit` tokens that may follow `token_ids`, which must extend those of the last call."""
        if not self.repeats(token_ids):
            return ()
        start = self._followers[self._last]
        return tuple(token_ids[start : start + limit])

    def repeats(self, token_ids: Sequence[int]) -> bool:
        """Whether `find` would find any tokens."""
        followers, last = self._followers, self._last
        for index in range(self._seen_count, len(token_ids)):
            followers[last] = index
            _, second, third = last
            last = (second, third, token_ids[index])
        self._last, self._seen_count = last, len(token_ids)
        return last in followers
