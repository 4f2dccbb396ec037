"""Guesses that a text goes on as it did after the same few tokens before: prompt lookup (Saxena, 2023).

Costs nothing but a dictionary, and pays where outputs repeat their prompt: summaries, code edits, extracted fields.
"""

from collections.abc import Sequence

NGRAM = 3
"""Tokens that must have occurred before."""


class NgramIndex:
    """Where one text went on after each of its n-grams."""

    def __init__(self) -> None:
        self._followers: dict[tuple[int, ...], int] = {}
        """Index of what followed, the latest time."""
        self._seen_count = 0

    def find(self, token_ids: Sequence[int], limit: int) -> tuple[int, ...]:
        """At most `limit` tokens that may follow `token_ids`, which are those of the last call and more."""
        self._take_in(token_ids)
        start = self._followers.get(tuple(token_ids[-NGRAM:]))
        return () if start is None else tuple(token_ids[start : start + limit])

    def _take_in(self, token_ids: Sequence[int]) -> None:
        """Remembers n-grams that something follows: the last one has no follower yet."""
        for end in range(max(NGRAM, self._seen_count), len(token_ids)):
            self._followers[tuple(token_ids[end - NGRAM : end])] = end
        self._seen_count = len(token_ids)
