"""Number of states that a model has memory for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StateSlots:
    """Places for the states of sequences, each of all layers. The first ones are those of running sequences."""

    running_count: int
    snapshot_count: int
    """Places for further states: at the ends of blocks, from which prompts that begin alike start, and before and
    behind the draft tokens of a step."""

    @property
    def spare(self) -> int:
        """Number of the place of steps that belong to no request."""
        return self.running_count + self.snapshot_count

    @property
    def count(self) -> int:
        """All places."""
        return self.spare + 1


NO_SLOTS = StateSlots(0, 0)
