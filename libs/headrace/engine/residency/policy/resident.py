"""One model as the policy of residency sees it."""

import math
from dataclasses import dataclass

from headrace.engine.contract.held_memory import HeldMemory
from headrace.engine.residency.policy.residence import Residence


@dataclass(slots=True)
class Resident:
    """Facts about a model that decide when it moves. Times are seconds of a monotonic clock."""

    name: str
    memory: HeldMemory
    can_sleep: bool
    """Whether it can sleep at level 1, and continue its requests afterwards."""
    is_pinned: bool = False
    residence: Residence = Residence.ON_DISK
    destination: Residence | None = None
    """Residence that it is moving to."""
    waiting_since: float | None = None
    """Time since which a request waits for it. None: none does."""
    is_busy: bool = False
    """Whether it has requests that began and have not ended."""
    used_time: float = -math.inf
    """Time at which it last had something to do."""
    awake_since: float = -math.inf
    interruption_count: int = 0
    """Times in a row that it was put to sleep in the middle of its requests, after which they are computed again."""
    barred_until: float = -math.inf
    """Time before which it is not brought back, because that just failed."""

    @property
    def awake_bytes(self) -> int:
        """Bytes that it takes on the device while it is awake."""
        return self.memory.weight_bytes + self.memory.kv_bytes + self.memory.state_bytes

    @property
    def held_awake_bytes(self) -> int:
        """Bytes of the device that are its own now: both ends of a move count."""
        return self.awake_bytes if Residence.AWAKE in (self.residence, self.destination) else 0

    @property
    def held_asleep_bytes(self) -> int:
        """Bytes of host memory that are its own now: both ends of a move count."""
        return self.memory.weight_bytes if Residence.ASLEEP in (self.residence, self.destination) else 0
