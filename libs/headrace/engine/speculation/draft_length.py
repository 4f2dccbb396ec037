"""Number of draft tokens from one source that pay for one sequence (Leviathan et al., 2023, section 3.3, with measured
costs)."""

import sys

MEMORY = 0.85
"""Share of its weight that the outcome of a draft keeps after the next step's."""
LIGHT = 0.5
"""Number of outcomes that an expectation counts as much as: few, so that drafts stop soon where they are wrong."""
PROBE_LENGTH = 2
"""Draft tokens of the first try after a pause."""
FIRST_PAUSE = 16
"""Tokens without drafts once those did not pay. Each failed try doubles the next pause."""
LONGEST_PAUSE = 512
LEAST_GAIN = 1.01
"""Smallest speedup, as a factor, that speculation must promise to be worth a try."""


class DraftLength:
    """Follows the acceptance of the last draft tokens."""

    def __init__(self, acceptance: float, weight: float = LIGHT, patience: int | None = None) -> None:
        """`acceptance` is the share of drafts that are expected to be right at the beginning, which counts as much as
        `weight` outcomes. Where a pause makes the next drafts dearer, `patience` is how many there may be in a row,
        and a try after one must promise a gain. Otherwise it is made anyway: it also tells what drafts cost."""
        self._expected = acceptance
        self._right, self._tested = weight * acceptance, weight
        self.right_count = self.tested_count = 0
        """Numbers of drafts that were right, and that were tested, so far."""
        self.tried = False
        """Whether there was an outcome since the beginning, or since the last pause."""
        self._patience = patience
        self._pause = FIRST_PAUSE
        self._pause_count = 0
        self.paused_until = 0
        """Length of the text before which no draft is to be made."""

    @property
    def acceptance(self) -> float:
        """Probability that a draft token is right, given that those before it are."""
        return self._right / self._tested

    def choose(
        self, token_count: int, limit: int, plain_cost: float, draft_cost: float, token_cost: float = 0.0
    ) -> tuple[int, float]:
        """Chooses the length of the drafts, at most `limit`. Returns it and the factor by which they are expected to
        speed up.

        `token_count` is the length of the text, `plain_cost` the seconds of a step without drafts, `draft_cost` what
        each of them adds, and `token_cost` what they take for each token of the text, confirmed or not.
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
        """Learns that the first `accepted_count` of `draft_count` drafts were right, and the next one, if any, not."""
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
        """Finds the length with the most tokens per second, and how many times as many those are as without drafts."""
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
