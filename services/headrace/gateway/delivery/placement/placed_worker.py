"""Worker on which a request has a place."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlacedWorker:
    """A worker, and where it is reached."""

    worker_id: str
    address: str
