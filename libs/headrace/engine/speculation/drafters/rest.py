"""Rest of a draft head that drafts nothing, as in large batches, where draft tokens do not pay."""

AWAKE_STEPS = 256
"""Steps without draft tokens after which a head rests."""
FIRST_REST, MAX_REST = 64, 1024
"""Steps of the first rest and of the longest: each lasts twice as long as the one before."""


class Rest:
    """Says which steps a head follows. Between two rests it does for a while, so that draft tokens are possible
    again."""

    def __init__(self) -> None:
        self._idle_count = 0
        """Steps since the head drafted, or since its last rest."""
        self._left_count = 0
        """Steps that are left of a rest."""
        self._next_count = FIRST_REST

    def begin_step(self) -> bool:
        """Returns whether the head follows the next step."""
        if self._left_count:
            self._left_count -= 1
            return False
        self._idle_count += 1
        if self._idle_count <= AWAKE_STEPS:
            return True
        self._idle_count, self._left_count = 0, self._next_count - 1
        self._next_count = min(2 * self._next_count, MAX_REST)
        return False

    def note_drafts(self) -> None:
        """Notes that the head drafted."""
        self._idle_count, self._next_count = 0, FIRST_REST
