"""Sources of one sequence's draft tokens, what they were worth so far, and what they may still lose."""

from collections.abc import Mapping

from headrace.engine.batching.sequence import Sequence
from headrace.engine.speculation.allowance import Allowance
from headrace.engine.speculation.draft_length import FIRST_PAUSE, DraftLength
from headrace.engine.speculation.ngram_index import NgramIndex

MAX_LOOK_DISTANCE = 4
"""Tokens between searches for a repetition, in a text that has not repeated itself for a while."""
CREDIT, SHARE, MAX_SAVED = 1.5, 0.005, 8.0
"""Tokens that a text may lose from the beginning, per generated token, and of what it gained. A text of 200 tokens
loses at most 2.5, and what a step may cost more than was known: 2 % are 4."""


class DraftHistory:
    """State of one sequence, from its first decode until it ends or loses its blocks."""

    def __init__(self, lengths: Mapping[str, DraftLength], *, has_credit: bool = True) -> None:
        """`lengths` by source. Without credit, nothing is tried before the text has earned it."""
        self.lengths = lengths
        self.allowance = Allowance(CREDIT if has_credit else 0.0, SHARE, MAX_SAVED)
        self.source = ""
        """Source of the last drafts."""
        self.draft_count = 0
        self.next_ask = 0
        """Text length in tokens before which the draft model is not asked."""
        self.rests_until = 0
        """Text length in tokens before which nothing is done at all."""
        self._ngrams = NgramIndex()
        self._next_look = 0
        self._look_distance = 1
        self._counted = 0

    def count_tokens(self, sequence: Sequence) -> int:
        """Takes the tokens generated since the last call into the allowance. Returns their number."""
        count = len(sequence.token_ids) - (self._counted or len(sequence.token_ids))
        self._counted = len(sequence.token_ids)
        if count:
            self.allowance.generate(count)
        return count

    def is_due(self, sequence: Sequence) -> bool:
        """Whether it is time to look for a repetition."""
        token_count = len(sequence.token_ids)
        if token_count < self.lengths["ngram"].paused_until:
            self._next_look = self.lengths["ngram"].paused_until
        return token_count >= self._next_look

    def look(self, sequence: Sequence) -> bool:
        """Whether the text repeats itself. After each miss the next look comes a little later: with a small model, even
        a look takes a noticeable share of a step."""
        token_ids = sequence.token_ids
        found = self._ngrams.repeats(token_ids)
        self._look_distance = 1 if found else min(self._look_distance + 1, MAX_LOOK_DISTANCE)
        self._next_look = len(token_ids) + self._look_distance
        return found

    def rest(self, sequence: Sequence) -> None:
        """Suspends lookup and drafting for a while: the allowance is used up."""
        self.rests_until = len(sequence.token_ids) + FIRST_PAUSE

    def look_up(self, sequence: Sequence, limit: int) -> dict[str, tuple[int, ...]]:
        """Returns the drafts that cost nothing, by source."""
        repeated, matcher = self._repeated(sequence, limit), sequence.matcher
        if matcher is None:
            return {"ngram": repeated}
        matcher.follow(sequence.output_token_ids)
        return {"grammar": matcher.forced(limit), "ngram": matcher.allowed(repeated)}

    def _repeated(self, sequence: Sequence, limit: int) -> tuple[int, ...]:
        """Returns the tokens that followed before, or none during a pause. The index then catches up later."""
        token_ids = sequence.token_ids
        return self._ngrams.find(token_ids, limit) if len(token_ids) >= self.lengths["ngram"].paused_until else ()
