"""Tracks the acceptance of one source's draft tokens for one sequence, and pauses a source that does not pay."""

import sys

MEMORY = 0.85
"""Factor by which the weight of each outcome decays per step."""
LIGHT = 0.5
"""Number of outcomes that the prior expectation counts as: few, so that bad drafts stop soon."""
PROBE_LENGTH = 2
"""Number of draft tokens in the first try after a pause."""
FIRST_PAUSE = 16
"""Tokens without drafts after drafts did not pay off. Each failed try doubles the next pause."""
MAX_PAUSE = 512


class DraftLength:
    """Says how many draft tokens may be made, and which share of them should be right."""

    def __init__(self, acceptance: float, weight: float = LIGHT, patience: int | None = None) -> None:
        """`acceptance` is the initial expected share of correct drafts, weighted as `weight` outcomes. Set `patience`
        if a pause makes the next drafts more expensive: it limits the number of pauses in a row."""
        self._expected = acceptance
        self._right, self._tested = weight * acceptance, weight
        self.right_count = self.tested_count = 0
        """Numbers of correct and of tested drafts so far."""
        self.tried = False
        """Whether any drafts were tested since the start or the last pause."""
        self._patience = patience
        self._pause = FIRST_PAUSE
        self._pause_count = 0
        self._probes = False
        self.paused_until = 0
        """Text length in tokens before which nothing is drafted."""

    @property
    def acceptance(self) -> float:
        """Probability that a draft token is correct, given that those before it are."""
        return self._right / self._tested

    def limit(self, token_count: int, limit: int) -> int:
        """Returns the most draft tokens that may be made for a text of `token_count` tokens, at most `limit`. The end
        of a pause is a new beginning, with few draft tokens."""
        if token_count < self.paused_until:
            return 0
        if self.paused_until:
            self.paused_until = 0
            self._right, self._tested = LIGHT * self._expected, LIGHT
            self.tried, self._probes = False, True
        return min(limit, PROBE_LENGTH) if self._probes else limit

    def pause(self, token_count: int) -> None:
        """Records that drafts are not worth their cost. Nothing is drafted for a while, longer each time that some were
        tested."""
        if not self.tried:
            self.paused_until = token_count + FIRST_PAUSE
            return
        self._pause_count += 1
        is_over = self._patience is not None and self._pause_count > self._patience
        self.paused_until = sys.maxsize if is_over else token_count + self._pause
        self._pause = min(2 * self._pause, MAX_PAUSE)

    def observe(self, draft_count: int, accepted_count: int) -> None:
        """Records that the first `accepted_count` of `draft_count` drafts were right, and the next, if any, wrong."""
        tested_count = min(accepted_count + 1, draft_count)
        self._right = MEMORY * self._right + accepted_count
        self._tested = MEMORY * self._tested + tested_count
        self.tried, self._probes = True, False
        self.right_count += accepted_count
        self.tested_count += tested_count
        if accepted_count == draft_count:
            self._pause, self._pause_count = FIRST_PAUSE, 0
