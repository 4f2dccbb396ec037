"""Time that the draft model takes, as measured."""

WEIGHT = 0.1
"""Weight of the newest measurement in the moving average. The first ones count alike, but for the very first, which
takes longer than any other."""
OUTLIER = 2.0
"""Longest time that counts, as a multiple of the expected one: beyond it something else held the processor."""
LATE_WEIGHT = 0.25
"""Weight of a measurement that is longer than was expected. Others may have held the processor; nothing makes one
shorter."""
FEW = 8
"""Number of measurements that do not say much yet."""
FADING, FIRST_FADING = 0.98, 0.7
"""Share of the average that remains at each choice against the draft model. A slow spell is forgotten that way, and
soon where the measurements are few."""


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
            # What has faded comes back as far as it turns out to be still true.
            known = min(max(seconds, self.seconds), self._known)
            weight = max(WEIGHT, 1 / (self._count - 1)) * (LATE_WEIGHT if seconds > known else 1)
            self._known = known + weight * (min(seconds, OUTLIER * known) - known)
        self._trust = 1.0

    def fade(self) -> None:
        self._trust *= FIRST_FADING if self._count < FEW else FADING


class DraftCost:
    """Seconds for each draft token, and for each token that is only read. To draft under a grammar takes longer."""

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
        """Fades what is known: the draft model was not chosen, so that nothing new is learned."""
        self._draft[constrained].fade()
