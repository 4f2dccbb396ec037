"""Worker to fetch the KV blocks of a prompt from."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PrefillSource:
    """Worker that has blocks of a prompt, or computes it for another."""

    worker_id: str
    address: str
    """Address at which it serves gRPC."""
    held_only: bool = False
    """Whether it only gives the blocks that it has."""
