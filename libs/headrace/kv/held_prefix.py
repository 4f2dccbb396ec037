"""The beginning of a prompt that a worker has."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HeldPrefix:
    """Leading KV blocks of a prompt that one worker has without a gap."""

    in_memory: int
    on_disk: int = 0
    """Blocks behind those in memory that its disk has."""

    @property
    def count(self) -> int:
        """Number of blocks that it need not compute."""
        return self.in_memory + self.on_disk


NOTHING = HeldPrefix(0)
