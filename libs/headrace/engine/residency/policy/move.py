"""Change of a model's residence."""

import enum
from dataclasses import dataclass

from headrace.engine.residency.policy.residence import Residence


class MoveKind(enum.Enum):
    """Way from one residence to another."""

    LOAD = "load"
    """From disk onto the device."""
    WAKE = "wake"
    """From host memory onto the device."""
    SLEEP = "sleep"
    """From the device into host memory: level 1."""
    DROP = "drop"
    """Out of all memory: level 2."""

    @property
    def target(self) -> Residence:
        """Residence that the move leads to."""
        return _TARGETS[self]


_TARGETS = {
    MoveKind.LOAD: Residence.AWAKE,
    MoveKind.WAKE: Residence.AWAKE,
    MoveKind.SLEEP: Residence.ASLEEP,
    MoveKind.DROP: Residence.ON_DISK,
}


@dataclass(frozen=True, slots=True)
class Move:
    """One move of one model."""

    kind: MoveKind
    name: str
    """Name of the model."""
