"""Drafts what followed the last three tokens the time before: prompt lookup (Saxena, 2023).

Costs nothing but a dictionary, and pays where outputs repeat their prompt: summaries, code edits, extracted fields.
"""

from collections.abc import Sequence


class NgramIndex:
    """Index of the places where one text went on after each three tokens in a row."""

    def __init__(self) -> None:
        self._followers: dict[tuple[int, int, int], int] = {}
        """Index of what followed three tokens, the latest time."""
        self._last = (-1, -1, -1)
        """Three tokens at the end of what was seen. Before the first one there are ids that no token has."""
        self._seen_count = 0

    def find(self, token_ids: Sequence[int], limit: int) -> tuple[int, ...]:
        """Finds at most `limit` tokens that may follow `token_ids`, which are those of the last call and more."""
        if not self.repeats(token_ids):
            return ()
        start = self._followers[self._last]
        return tuple(token_ids[start : start + limit])

    def repeats(self, token_ids: Sequence[int]) -> bool:
        """Whether `find` would find anything."""
        followers, last = self._followers, self._last
        for index in range(self._seen_count, len(token_ids)):
            followers[last] = index
            _, second, third = last
            last = (second, third, token_ids[index])
        self._last, self._seen_count = last, len(token_ids)
        return last in followers
