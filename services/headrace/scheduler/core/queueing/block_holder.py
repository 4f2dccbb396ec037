"""Worker that holds the KV blocks of a request."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BlockHolder:
    """A worker from which another may fetch the blocks."""

    worker_id: str
    address: str
