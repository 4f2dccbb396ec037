"""Facts by which a scheduler decides which KV blocks should travel."""

from dataclasses import dataclass

from headrace.worker.transfer.worker_role import WorkerRole


@dataclass(frozen=True, slots=True)
class TransferStatus:
    """Part of a worker in the exchange of KV blocks."""

    role: WorkerRole = WorkerRole.BOTH
    layout: str = ""
    """Digest of what must agree. Empty: the worker takes no part."""
    block_bytes: int = 0
    """Size of one block, in bytes."""
    bytes_per_second: float = 0.0
    """Rate at which blocks came here from other workers. 0: not measured yet."""
    disk_bytes_per_second: float = 0.0
    """Rate at which they came from the disk. 0: not measured yet."""
