"""Leases of one transfer."""

from collections.abc import Sequence

from headrace.engine.kv.block_exchange import BlockExchange
from headrace.engine.kv.block_lease import BlockLease
from headrace.errors import InternalError


class TransferLeases:
    """Leases of consecutive blocks of one prompt, one after the other. For the engine's thread alone: whatever a call
    there leased is known here, even if its caller has given up."""

    def __init__(self, exchange: BlockExchange, first_index: int = 0) -> None:
        """`first_index`: index in the prompt of the first block to be leased."""
        self._exchange = exchange
        self._leases: list[tuple[int, BlockLease]] = []
        self._end = first_index

    def find(self, hashes: Sequence[bytes]) -> int:
        """Leases those of the next blocks that are in the prefix cache. Returns their number."""
        return self._hold(self._exchange.lease(hashes))

    def add(self, hashes: Sequence[bytes], contents: Sequence[bytes]) -> int:
        """Puts the next blocks into the prefix cache and leases them. Returns the number that had room. Raises
        InvalidRequest for contents of another size."""
        return self._hold(self._exchange.import_blocks(hashes, contents))

    def export(self, first_index: int, count: int) -> list[bytes]:
        """Copies contents of at most `count` blocks, and at least one, from `first_index` on. Raises Unavailable if
        requests needed their memory."""
        for start, lease in self._leases:
            if start <= first_index < start + len(lease):
                skipped = first_index - start
                return self._exchange.export(lease, skipped, min(count, len(lease) - skipped))
        raise InternalError(f"KV block {first_index} of the prompt is not leased", stage="prefill")

    def release(self) -> None:
        """Ends all leases."""
        for _, lease in self._leases:
            self._exchange.release(lease)
        self._leases.clear()

    def _hold(self, lease: BlockLease) -> int:
        self._leases.append((self._end, lease))
        self._end += len(lease)
        return len(lease)
