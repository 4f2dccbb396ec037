"""Measured time of the draft model."""

WEIGHT = 0.1
"""Weight of the newest measurement in the moving average. The first few have equal weight, except the very first, which
takes longer than any other and is dropped."""
OUTLIER = 2.0
"""Longest time that counts, as a multiple of the expected one: beyond it, something else held the processor."""
LATE_WEIGHT = 0.25
"""Weight of a measurement longer than expected. Other processes can make one longer; nothing makes one shorter."""
FEW = 8
"""Measurement count below which the average says little."""
FADING, FIRST_FADING = 0.98, 0.7
"""Factor by which the average shrinks each time the draft model is not chosen; the second applies to few measurements.
This forgets a slow spell, soon if there are few measurements."""


class _Average:
    """A moving average of seconds. 0 before the first."""

    def __init__(self) -> None:
        self._known = 0.0
        self._trust = 1.0
        self._count = 0

    @property
    def seconds(self) -> float:
        return self._trust * self._known

    def observe(self, seconds: float) -> None:
        self._count += 1
        if self._count <= 2:
            self._known = seconds
        else:
            # A faded average recovers only as far as the new measurement confirms it.
            known = min(max(seconds, self.seconds), self._known)
            weight = max(WEIGHT, 1 / (self._count - 1)) * (LATE_WEIGHT if seconds > known else 1)
            self._known = known + weight * (min(seconds, OUTLIER * known) - known)
        self._trust = 1.0

    def fade(self) -> None:
        self._trust *= FIRST_FADING if self._count < FEW else FADING


class DraftCost:
    """Seconds per draft token, and per token that is only read. Drafting under a grammar takes longer."""

    def __init__(self) -> None:
        self._draft = {False: _Average(), True: _Average()}
        self._read = _Average()

    def per_draft_token(self, *, constrained: bool) -> float:
        return self._draft[constrained].seconds

    @property
    def per_read(self) -> float:
        return self._read.seconds

    def observe_drafts(self, count: int, seconds: float, *, constrained: bool) -> None:
        self._draft[constrained].observe(seconds / count)

    def observe_reading(self, token_count: int, seconds: float) -> None:
        self._read.observe(seconds / token_count)

    def fade(self, *, constrained: bool) -> None:
        """Fades the averages: the draft model was not chosen, so nothing new was measured."""
        self._draft[constrained].fade()
