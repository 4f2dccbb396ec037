"""Part of a worker where prompts are computed apart from what follows."""

import enum


class WorkerRole(enum.Enum):
    """Parts that a worker can take."""

    BOTH = "both"
    """It runs whole requests, and computes prompts for others."""
    PREFILL = "prefill"
    """It computes prompts for others, and runs whole requests only where no other worker does."""
    DECODE = "decode"
    """It runs whole requests, and computes no prompts for others."""
