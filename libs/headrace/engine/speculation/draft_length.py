"""Chooses how many draft tokens from one source pay off for one sequence (Leviathan et al., 2023, section 3.3, with
measured costs)."""

import sys

MEMORY = 0.85
"""Factor by which the weight of each outcome decays per step."""
LIGHT = 0.5
"""Number of outcomes that the prior expectation counts as: few, so that bad drafts stop soon."""
PROBE_LENGTH = 2
"""Number of draft tokens in the first try after a pause."""
FIRST_PAUSE = 16
"""Tokens without drafts after drafts did not pay off. Each failed try doubles the next pause."""
LONGEST_PAUSE = 512
LEAST_GAIN = 1.01
"""Smallest expected speedup, as a factor, that makes speculation worth a try."""


class DraftLength:
    """Tracks the acceptance of recent draft tokens."""

    def __init__(self, acceptance: float, weight: float = LIGHT, patience: int | None = None) -> None:
        """`acceptance` is the initial expected share of correct drafts, weighted as `weight` outcomes. Set `patience`
        if a pause makes the next drafts more expensive: it limits the number of pauses in a row, and a try after a
        pause must promise a gain. Otherwise every pause ends with a try, which also measures the cost of drafts."""
        self._expected = acceptance
        self._right, self._tested = weight * acceptance, weight
        self.right_count = self.tested_count = 0
        """Numbers of correct and of tested drafts so far."""
        self.tried = False
        """Whether any drafts were tested since the start or the last pause."""
        self._patience = patience
        self._pause = FIRST_PAUSE
        self._pause_count = 0
        self.paused_until = 0
        """Text length in tokens before which nothing is drafted."""

    @property
    def acceptance(self) -> float:
        """Probability that a draft token is correct, given that those before it are."""
        return self._right / self._tested

    def choose(
        self, token_count: int, limit: int, plain_cost: float, draft_cost: float, token_cost: float = 0.0
    ) -> tuple[int, float]:
        """Returns the number of draft tokens, at most `limit`, and the expected speedup as a factor.

        `token_count` is the length of the text, `plain_cost` the seconds of a step without drafts, `draft_cost` the
        seconds that each draft adds, and `token_cost` the seconds of overhead per token that a step produces.
        """
        if token_count < self.paused_until or not limit:
            return 0, 1.0
        probes = self.paused_until > 0
        if probes:
            self.paused_until = 0
            self._right, self._tested = LIGHT * self._expected, LIGHT
            self.tried = False
            if self._patience is None:
                return min(limit, PROBE_LENGTH), LEAST_GAIN
        length, gain = self._best(limit, plain_cost, draft_cost, token_cost)
        if not length or gain < LEAST_GAIN:
            self._begin_pause(token_count)
            return 0, 1.0
        return (min(length, PROBE_LENGTH), LEAST_GAIN) if probes else (length, gain)

    def observe(self, draft_count: int, accepted_count: int) -> None:
        """Records that the first `accepted_count` of `draft_count` drafts were right, and the next, if any, wrong."""
        tested_count = min(accepted_count + 1, draft_count)
        self._right = MEMORY * self._right + accepted_count
        self._tested = MEMORY * self._tested + tested_count
        self.tried = True
        self.right_count += accepted_count
        self.tested_count += tested_count
        if accepted_count == draft_count:
            self._pause, self._pause_count = FIRST_PAUSE, 0

    def _begin_pause(self, token_count: int) -> None:
        self._pause_count += 1
        is_over = self._patience is not None and self._pause_count > self._patience
        self.paused_until = sys.maxsize if is_over else token_count + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _best(self, limit: int, plain_cost: float, draft_cost: float, token_cost: float) -> tuple[int, float]:
        """Returns the length with the most tokens per second, and the speedup over no drafts."""
        best, best_gain = 0, 1.0
        acceptance = self.acceptance
        likelihood = tokens = 1.0
        for length in range(1, limit + 1):
            likelihood *= acceptance
            tokens += likelihood
            gain = tokens * plain_cost / (plain_cost + length * draft_cost + tokens * token_cost)
            if gain > best_gain:
                best, best_gain = length, gain
        return best, best_gain
