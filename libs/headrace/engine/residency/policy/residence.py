"""Places where a model can be."""

import enum


class Residence(enum.Enum):
    """Place of a model's weights, and so the time until it can serve."""

    ON_DISK = "on_disk"
    """Asleep at level 2: nothing is in memory. Packed weights are mapped from their file when it is loaded."""
    ASLEEP = "asleep"
    """Asleep at level 1: its weights are in host memory, and it has no KV cache."""
    AWAKE = "awake"
    """Weights and KV cache are on the device, and it serves."""
