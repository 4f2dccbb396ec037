"""How many guesses of one kind pay for one sequence (Leviathan et al., 2023, section 3.3, with measured costs)."""

MEMORY = 0.85
"""What a guess's outcome still counts after the next step's."""
PROBE_LENGTH = 2
"""Guesses of the first try after a pause."""
FIRST_PAUSE = 16
"""Tokens without guesses once they did not pay. Each pause that follows on a failed try is twice as long."""
LONGEST_PAUSE = 512
LEAST_GAIN = 1.03
"""What speculation must promise to be worth a try."""


class GuessLength:
    """Follows how many of the last guesses were right."""

    def __init__(self, acceptance: float) -> None:
        """`acceptance` is the share of guesses that are expected to be right at the beginning."""
        self._first = acceptance
        self._right = acceptance
        self._tested = 1.0
        self._pause = FIRST_PAUSE
        self._paused_until = 0

    @property
    def acceptance(self) -> float:
        """Probability that a guess is right whose predecessors were."""
        return self._right / self._tested

    def choose(self, token_count: int, limit: int, plain_cost: float, guess_cost: float) -> tuple[int, float]:
        """The length of the guesses, at most `limit`, and by what factor they are expected to speed up.

        `token_count` is the length of the text, `plain_cost` the seconds of a step without guesses, and `guess_cost`
        what each of them adds.
        """
        if token_count < self._paused_until:
            return 0, 1.0
        if self._paused_until:
            self._paused_until = 0
            self._right, self._tested = self._first, 1.0
            return min(limit, PROBE_LENGTH), LEAST_GAIN
        length, gain = self._best(limit, plain_cost, guess_cost)
        if length and gain >= LEAST_GAIN:
            return length, gain
        if limit:
            self._paused_until = token_count + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
        return 0, 1.0

    def observe(self, guess_count: int, accepted_count: int) -> None:
        """Learns that the first `accepted_count` of `guess_count` guesses were right, and the next one, if any, not."""
        self._right = MEMORY * self._right + accepted_count
        self._tested = MEMORY * self._tested + min(accepted_count + 1, guess_count)
        if accepted_count == guess_count:
            self._pause = FIRST_PAUSE

    def _best(self, limit: int, plain_cost: float, guess_cost: float) -> tuple[int, float]:
        """The length with the most tokens per second, and how many times as many those are as without guesses."""
        best, best_gain = 0, 1.0
        likelihood = tokens = 1.0
        for length in range(1, limit + 1):
            likelihood *= self.acceptance
            tokens += likelihood
            gain = tokens * plain_cost / (plain_cost + length * guess_cost)
            if gain > best_gain:
                best, best_gain = length, gain
        return best, best_gain
