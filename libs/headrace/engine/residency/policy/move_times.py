"""Times that moves took, from which those of the next ones are predicted."""

from headrace.engine.residency.policy.move import Move, MoveKind
from headrace.engine.residency.policy.residence import Residence
from headrace.engine.residency.policy.resident import Resident

MEMORY = 0.7
"""Weight of the past in a moving average; the newest move has the rest."""


class MoveTimes:
    """Moving averages in seconds, by model and kind of move, and counts of moves."""

    def __init__(self) -> None:
        self._averages: dict[Move, float] = {}
        self._counts: dict[Move, int] = {}

    def note(self, move: Move, seconds: float) -> None:
        """Counts a move that took so many seconds."""
        past = self._averages.get(move)
        self._averages[move] = seconds if past is None else MEMORY * past + (1 - MEMORY) * seconds
        self._counts[move] = self._counts.get(move, 0) + 1

    def count(self, kind: MoveKind, name: str) -> int:
        """Returns the number of moves of a kind that a model made."""
        return self._counts.get(Move(kind, name), 0)

    def until_awake(self, resident: Resident) -> float:
        """Predicts the seconds from where a model is until it is awake. One that never did it is predicted by others'
        average; zero where there is none."""
        if resident.residence is Residence.AWAKE:
            return 0.0
        kind = MoveKind.WAKE if resident.residence is Residence.ASLEEP else MoveKind.LOAD
        own = self._averages.get(Move(kind, resident.name))
        if own is not None:
            return own
        others = [seconds for move, seconds in self._averages.items() if move.kind is kind]
        return sum(others) / len(others) if others else 0.0
