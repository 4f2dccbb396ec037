"""Guesses that a text goes on as it did after the same few tokens before: prompt lookup (Saxena, 2023).

Costs nothing but a dictionary, and pays where outputs repeat their prompt: summaries, code edits, extracted fields.
"""

from collections.abc import Sequence

NGRAM = 3
"""Tokens that must have occurred before."""
MAX_LENGTH = 6
START_RATE = 0.5
RATE_WEIGHT = 0.3
"""Of the newest observation in the moving average."""
PAUSE_TOKENS = 24
"""Tokens without guesses after guessing did not pay."""


class NgramDrafter:
    """The guesses for one sequence. Their length follows how many of the last ones were right; zero pauses them."""

    def __init__(self) -> None:
        self._followers: dict[tuple[int, ...], int] = {}
        """Where the text went on after each n-gram, the latest time."""
        self._seen_count = 0
        self._rate = START_RATE
        self._paused_until = 0

    def propose(self, token_ids: Sequence[int], limit: int) -> tuple[int, ...]:
        """At most `limit` tokens that may follow `token_ids`."""
        self._take_in(token_ids)
        length = min(limit, round(self._rate * MAX_LENGTH))
        if length < 1 or len(token_ids) < max(NGRAM, self._paused_until):
            return ()
        start = self._followers.get(tuple(token_ids[-NGRAM:]))
        return () if start is None else tuple(token_ids[start : start + length])

    def observe(self, token_count: int, proposed_count: int, accepted_count: int) -> None:
        """Learns how many of the proposed tokens were right; `token_count` is the length of the text now."""
        if not proposed_count:
            return
        self._rate = (1 - RATE_WEIGHT) * self._rate + RATE_WEIGHT * accepted_count / proposed_count
        if round(self._rate * MAX_LENGTH) < 1:
            self._paused_until = token_count + PAUSE_TOKENS
            self._rate = START_RATE / 2

    def _take_in(self, token_ids: Sequence[int]) -> None:
        """Remembers n-grams that something follows: the last one has no follower yet."""
        for end in range(max(NGRAM, self._seen_count), len(token_ids)):
            self._followers[tuple(token_ids[end - NGRAM : end])] = end
        self._seen_count = len(token_ids)
