"""Search for the KV blocks of one prompt."""

from dataclasses import replace

from headrace.domain.deadline import Deadline
from headrace.engine.kv.block_exchange import BlockExchange
from headrace.errors import Unavailable
from headrace.worker.stepping.engine_thread import EngineThread
from headrace.worker.transfer.block_packet import BlockPacket
from headrace.worker.transfer.prefill_order import PrefillOrder
from headrace.worker.transfer.transfer_leases import TransferLeases
from headrace.worker.transfer.transfer_metrics import REFUSED_BLOCKS


class BlockSearch:
    """Leading blocks of a prompt that were found so far, leased in the pool of this engine. Blocks are found in the
    order of the prompt: one without those before it is worth nothing."""

    def __init__(
        self, order: PrefillOrder, block_size: int, thread: EngineThread, exchange: BlockExchange, deadline: Deadline
    ) -> None:
        """`order.layout` and `order.remaining_seconds` are replaced by those of this engine and of `deadline`."""
        self.deadline = deadline
        self.found_count = 0
        self._order = replace(order, layout=exchange.layout)
        self._hashes = order.hashes(block_size)
        self._leases = TransferLeases(exchange)
        self._thread = thread
        self._is_full = False

    @property
    def missing(self) -> list[bytes]:
        """Names of the blocks that are not found yet, in order."""
        return self._hashes[self.found_count :]

    @property
    def is_over(self) -> bool:
        """Whether no more blocks are wanted: none is missing, or there is no memory for another."""
        return self._is_full or self.found_count >= len(self._hashes)

    @property
    def order(self) -> PrefillOrder:
        """Order for the missing blocks."""
        return replace(self._order, skip_count=self.found_count, remaining_seconds=self.deadline.remaining)

    async def lease_cached(self) -> None:
        """Adds missing blocks that the prefix cache has. Raises TimeoutError."""
        missing = self.missing
        self.found_count += await self._thread.call(lambda: self._leases.find(missing), self.deadline.remaining)

    async def add(self, packet: BlockPacket) -> int:
        """Puts the next missing blocks into the prefix cache. Returns the number that had room.

        Raises Unavailable for blocks that are damaged or others than the next, InvalidRequest for those of another
        size, and TimeoutError.
        """
        count = len(packet.contents)
        hashes = self._hashes[self.found_count : self.found_count + count]
        if packet.first_index != self.found_count or not packet.is_intact(hashes):
            REFUSED_BLOCKS.inc(count)
            raise Unavailable("KV blocks arrived damaged, or are not the ones requested")
        added = await self._thread.call(lambda: self._leases.add(hashes, packet.contents), self.deadline.remaining)
        self.found_count += added
        self._is_full = added < count
        return added

    def end(self) -> None:
        """Ends the leases, after whatever the engine was asked to do before. The blocks stay in the prefix cache."""
        self._thread.ask(self._leases.release)
