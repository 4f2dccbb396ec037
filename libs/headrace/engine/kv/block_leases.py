"""Leases on cached KV blocks, which yield to requests."""

from collections.abc import Sequence

from headrace.engine.kv.block_lease import BlockLease
from headrace.engine.kv.block_pool import BlockPool


class BlockLeases:
    """Keeps leased blocks from being reused, for as long as no request needs the memory."""

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self._held: dict[BlockLease, None] = {}

    def __len__(self) -> int:
        return len(self._held)

    @property
    def tables(self) -> list[tuple[int, ...]]:
        """Block numbers of every lease that holds."""
        return [lease.blocks for lease in self._held]

    def take(self, hashes: Sequence[bytes]) -> BlockLease:
        """Leases the longest run of cached blocks at the beginning of `hashes`."""
        blocks = self._pool.find(hashes)
        self._pool.share(blocks)
        return self._hold(BlockLease(tuple(hashes[: len(blocks)]), tuple(blocks)))

    def fill(self, hashes: Sequence[bytes]) -> tuple[BlockLease, list[int]]:
        """Leases a block for each hash in order, for as long as there are free ones: the cached one, or a new one that
        can be found from now on. Returns also the indices of the new ones, whose content has to be written before
        anything else happens."""
        blocks: list[int] = []
        added: list[int] = []
        for index, block_hash in enumerate(hashes):
            found = self._pool.find([block_hash])
            if found:
                self._pool.share(found)
            elif self._pool.free_count:
                found = self._pool.allocate(1)
                self._pool.publish(found[0], block_hash)
                added.append(index)
            else:
                break
            blocks += found
        return self._hold(BlockLease(tuple(hashes[: len(blocks)]), tuple(blocks))), added

    def is_sound(self, lease: BlockLease) -> bool:
        """Whether a lease holds and its blocks still have the contents that their hashes name."""
        return lease.is_held and self._pool.find(lease.hashes) == list(lease.blocks)

    def release(self, lease: BlockLease) -> None:
        """Ends a lease, unless it has ended."""
        if lease.is_held:
            lease.is_held = False
            del self._held[lease]
            self._pool.release(lease.blocks)

    def revoke(self) -> bool:
        """Ends all leases. Returns whether there were any."""
        held = list(self._held)
        for lease in held:
            self.release(lease)
        return bool(held)

    def _hold(self, lease: BlockLease) -> BlockLease:
        self._held[lease] = None
        return lease
