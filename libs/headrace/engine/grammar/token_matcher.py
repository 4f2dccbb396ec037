"""Progress of one output in its grammar."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llguidance import LLMatcher


class TokenMatcher:
    """Follows the output of one request. What it allows is a function of grammar and output alone."""

    def __init__(self, matcher: "LLMatcher") -> None:
        self.matcher = matcher
        self._followed_count = 0

    def copy(self) -> "TokenMatcher":
        """A matcher of the same grammar for another output, for one that has followed nothing."""
        return TokenMatcher(self.matcher.deep_copy())

    def fork(self, output_token_ids: Sequence[int]) -> "TokenMatcher":
        """A second matcher that has followed `output_token_ids` too, and from there on goes its own way."""
        self.follow(output_token_ids)
        other = self.copy()
        other._followed_count = self._followed_count
        return other

    def forced(self, limit: int) -> tuple[int, ...]:
        """Returns at most `limit` tokens that the grammar leaves no choice about, after what was followed."""
        return tuple(self.matcher.compute_ff_tokens()[:limit])

    def allowed(self, token_ids: Sequence[int]) -> tuple[int, ...]:
        """The first of `token_ids`, as far as the grammar allows them to come next."""
        return tuple(token_ids[: self.matcher.validate_tokens(list(token_ids))]) if token_ids else ()

    def follow(self, output_token_ids: Sequence[int]) -> None:
        """Takes in the tokens that were added to the output since the last call."""
        added = list(output_token_ids[self._followed_count :])
        self._followed_count += len(added)
        if added:
            self.matcher.consume_tokens(added)

    @property
    def error(self) -> str | None:
        """Reason for which the matcher can follow no further, if there is one: the output is off the grammar, or the
        grammar too complex."""
        return self.matcher.get_error() or None
