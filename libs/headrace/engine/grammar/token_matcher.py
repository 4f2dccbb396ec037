"""Progress of one output in its grammar."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from llguidance import LLMatcher
    from numpy.typing import NDArray

    from headrace.engine.grammar.number_bound import NumberBound


class TokenMatcher:
    """Follows the output of one request. What it allows is a function of grammar and output alone."""

    def __init__(self, matcher: "LLMatcher", numbers: "NumberBound | None" = None) -> None:
        """`numbers`: the bound of numbers, for a grammar of JSON."""
        self.matcher = matcher
        self._numbers = numbers
        self._followed_count = 0
        self._tail = b""
        """End of the output, as far as it may be one number."""

    def copy(self) -> "TokenMatcher":
        """A matcher of the same grammar for another output, for one that has followed nothing."""
        return TokenMatcher(self.matcher.deep_copy(), self._numbers)

    def fork(self, output_token_ids: Sequence[int]) -> "TokenMatcher":
        """A second matcher that has followed `output_token_ids` too, and from there on goes its own way."""
        self.follow(output_token_ids)
        other = self.copy()
        other._followed_count, other._tail = self._followed_count, self._tail
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
        if added and self._numbers is not None:
            self._tail = self._numbers.tail(self._tail, added)

    def narrow(self, forbidden: "NDArray[np.bool_]") -> None:
        """Forbids in place what follows the grammar, but would never end."""
        if self._numbers is not None:
            self._numbers.narrow(self._tail, forbidden)

    @property
    def error(self) -> str | None:
        """Reason for which the matcher can follow no further, if there is one: the output is off the grammar, or the
        grammar too complex."""
        return self.matcher.get_error() or None
