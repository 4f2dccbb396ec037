"""Names by which a worker tells of the KV blocks on its disk."""

KEPT = b"\x01"


def kept_name(block_hash: bytes) -> bytes:
    """Returns the name of a block on a disk. Only its length tells it from blocks in memory, so that one log and one
    index serve both."""
    return block_hash + KEPT
