"""Worker to fetch the KV blocks of a prompt from."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PrefillSource:
    """Worker that computes a prompt for another."""

    worker_id: str
    address: str
    """Address at which it serves gRPC."""
