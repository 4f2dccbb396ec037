"""KV blocks that this engine has already."""

from headrace.worker.transfer.fetching.block_search import BlockSearch
from headrace.worker.transfer.fetching.fetched_tokens import Tier


class PoolSource:
    """The prefix cache of the engine that wants the blocks."""

    name = "prefix cache"
    tier: Tier = "memory"

    async def find(self, search: BlockSearch) -> None:
        """Leases the blocks where they are. See `BlockSource`."""
        await search.lease_cached()
