"""The Protocol of places that KV blocks of a prompt may come from."""

from typing import Protocol

from headrace.worker.transfer.fetching.block_search import BlockSearch
from headrace.worker.transfer.fetching.fetched_tokens import Tier


class BlockSource(Protocol):
    """Place that may have KV blocks: the pool of this engine, another worker, a store that workers share."""

    @property
    def name(self) -> str:
        """Name in logs."""

    @property
    def tier(self) -> Tier:
        """Kind of place that it is."""

    async def find(self, search: BlockSearch) -> None:
        """Adds to `search` the missing blocks that are here, in order, and ends at the first that is not. What was
        added stays, whatever happens afterwards. Raises HeadraceError where the source fails, and TimeoutError at the
        deadline of the search."""
