"""KV blocks that another worker has, or computes."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from headrace.errors import Overloaded, Unavailable
from headrace.rpc.channel import OpenChannel
from headrace.service_clients.worker import GrpcWorkerClient, WorkerClient
from headrace.worker.transfer.block_packet import BlockPacket
from headrace.worker.transfer.fetching.block_search import BlockSearch
from headrace.worker.transfer.fetching.fetched_tokens import Tier
from headrace.worker.transfer.fetching.prefill_source import PrefillSource
from headrace.worker.transfer.fetching.transfer_rate import TransferRate
from headrace.worker.transfer.prefill_order import PrefillOrder
from headrace.worker.transfer.transfer_metrics import RECEIVED_BLOCKS, RECEIVED_BYTES, RESUMED_TRANSFERS
from headrace.worker.transfer.translation import to_packet, to_prefill_request

RESUME_COUNT = 2
"""Times that a transfer which was cut is gone on with."""


class PeerSource:
    """Worker that sends the blocks that it has of a prompt, or computes it and sends them meanwhile (decision 0032)."""

    tier: Tier = "worker"

    def __init__(self, peer: PrefillSource, open_channel: OpenChannel, rate: TransferRate) -> None:
        """`rate` learns the rate of the fastest packet."""
        self.name = peer.worker_id
        self._address = peer.address
        self._held_only = peer.held_only
        self._open_channel = open_channel
        self._rate = rate

    async def find(self, search: BlockSearch) -> None:
        """Receives blocks, and resumes after a broken stream. See `BlockSource`."""
        async with asyncio.timeout(search.deadline.remaining), self._open_channel(self._address) as channel:
            client = GrpcWorkerClient(channel)
            for resumes_left in reversed(range(1 + RESUME_COUNT)):
                try:
                    await self._receive(client, search)
                except (Unavailable, Overloaded):
                    if not resumes_left:
                        raise
                else:
                    if self._held_only:
                        return
                if search.is_over:
                    return
                RESUMED_TRANSFERS.inc()

    async def _receive(self, client: WorkerClient, search: BlockSearch) -> None:
        """Adds the blocks of one stream, until it ends or no more are wanted. Raises HeadraceError where it breaks."""
        fastest, asked = 0.0, time.perf_counter()
        try:
            async with aclosing(_packets(client, replace(search.order, held_only=self._held_only))) as packets:
                async for packet in packets:
                    RECEIVED_BLOCKS.inc(await search.add(packet))
                    RECEIVED_BYTES.inc(packet.byte_count)
                    fastest = max(fastest, packet.byte_count / (time.perf_counter() - asked))
                    asked = time.perf_counter()
                    if search.is_over:
                        return
        finally:
            if fastest:
                self._rate.observe(fastest)


async def _packets(client: WorkerClient, order: PrefillOrder) -> AsyncGenerator[BlockPacket, None]:
    responses = client.prefill(to_prefill_request(order), order.remaining_seconds)
    async with aclosing(responses):
        async for response in responses:
            yield to_packet(response)
