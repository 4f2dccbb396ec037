"""Memory that a model holds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HeldMemory:
    """Bytes that a model holds, on whatever device it is on."""

    weight_bytes: int = 0
    kv_bytes: int = 0
    """Bytes of the whole KV cache. The system commits most of its pages only when they are written."""
    state_bytes: int = 0
    """Bytes of the states of all sequences and snapshots, where layers keep some."""

    def __add__(self, other: "HeldMemory") -> "HeldMemory":
        return HeldMemory(
            self.weight_bytes + other.weight_bytes,
            self.kv_bytes + other.kv_bytes,
            self.state_bytes + other.state_bytes,
        )
