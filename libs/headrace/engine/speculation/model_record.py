"""Record of a draft model: the share of its draft tokens that recent texts accepted."""

from headrace.engine.batching.sequence import Sequence
from headrace.engine.speculation.draft_length import DraftLength

ASSUMED = 0.85
"""Prior share of correct draft tokens. It is high, so that the model gets a try."""
PATIENCE = 3
"""Number of pauses of the draft model per text. After each one it must read the tokens since."""
TRUST = 4.0
"""Number of draft tokens that the record in other texts counts as."""
FRESHNESS, DRIFT = 0.2, 0.02
"""Weights of the latest text, and of the prior after a text without the model's draft tokens."""


class ModelRecord:
    """Keeps two shares, since texts with a grammar are easier to draft for, or harder."""

    def __init__(self) -> None:
        self._acceptance = {False: ASSUMED, True: ASSUMED}
        """By whether there was a grammar."""

    def begin(self, sequence: Sequence) -> DraftLength:
        """Returns the expectation of the model for a new text."""
        return DraftLength(self._acceptance[sequence.matcher is not None], TRUST, PATIENCE)

    def learn(self, sequence: Sequence, length: DraftLength) -> None:
        """Adds a finished text."""
        constrained = sequence.matcher is not None
        known = self._acceptance[constrained]
        if length.tested_count:
            known += FRESHNESS * (length.right_count / length.tested_count - known)
        else:
            known += DRIFT * (ASSUMED - known)
        self._acceptance[constrained] = known
