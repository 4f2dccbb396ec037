"""Names of the KV blocks in the prefix cache of an engine."""

from headrace.engine.contract.request import BlockEvents
from headrace.kv.block_hash import extend_hashes, root_hash
from headrace.worker.transfer.prefill_order import PrefillOrder


class CachedNames:
    """Follows the prefix cache by the reports of the engine's thread. Runs on the event loop."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._names: set[bytes] = set()

    def follow(self, events: BlockEvents) -> None:
        """Takes in what changed in the prefix cache."""
        self._names.difference_update(events.removed)
        self._names.update(events.stored)

    def first_lacking(self, order: PrefillOrder) -> tuple[bytes, int] | None:
        """Returns the first block of a prompt that the prefix cache lacks, and the number of tokens in full blocks from
        there on. The last token of a prompt is in none. None: it lacks no block."""
        hashes: list[bytes] = []
        root, size = root_hash(order.cache_salt, order.adapter), self._block_size
        end = (len(order.token_ids) - 1) // size * size
        for start in range(0, end, size):
            extend_hashes(hashes, root, [order.token_ids[start : start + size]])
            if hashes[-1] not in self._names:
                return hashes[-1], end - start
        return None
