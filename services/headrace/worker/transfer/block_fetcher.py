"""Fetches KV blocks of prompts from workers that compute them."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace

from headrace.domain.deadline import Deadline
from headrace.engine.kv.block_exchange import BlockExchange
from headrace.errors import HeadraceError, Overloaded, Unavailable
from headrace.rpc.channel import OpenChannel
from headrace.service_clients.worker import GrpcWorkerClient, WorkerClient
from headrace.worker.stepping.engine_thread import EngineThread
from headrace.worker.transfer.block_packet import BlockPacket
from headrace.worker.transfer.prefill_order import PrefillOrder
from headrace.worker.transfer.prefill_source import PrefillSource
from headrace.worker.transfer.transfer_leases import TransferLeases
from headrace.worker.transfer.transfer_metrics import (
    RECEIVED_BLOCKS,
    RECEIVED_BYTES,
    RECOMPUTED_BLOCKS,
    REFUSED_BLOCKS,
    RESUMED_TRANSFERS,
)
from headrace.worker.transfer.transfer_rate import TransferRate
from headrace.worker.transfer.translation import to_packet, to_prefill_request

RESUME_COUNT = 2
"""Times that a transfer which was cut is gone on with."""
DEADLINE_SHARE = 0.3
"""Share of the time that a request has left which its transfer may take."""
LONGEST_SECONDS = 20.0
"""Longest time, in seconds, that a transfer may take: shorter than gateways wait for progress."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Fetch:
    """Progress of one transfer."""

    order: PrefillOrder
    hashes: list[bytes]
    leases: TransferLeases
    deadline: Deadline
    have: int = 0
    """Leading blocks that are here."""
    fastest: float = 0.0
    """Rate of the fastest packet, in bytes per second."""
    is_full: bool = False
    """Whether there is no memory for further blocks."""

    @property
    def is_done(self) -> bool:
        return self.is_full or self.have >= len(self.hashes)


class BlockFetcher:
    """Puts blocks of others into the prefix cache, for requests that begin afterwards. Whatever fails, they begin, and
    compute what did not arrive. Runs on the event loop."""

    def __init__(
        self, thread: EngineThread, exchange: BlockExchange, block_size: int, open_channel: OpenChannel
    ) -> None:
        self.rate = TransferRate()
        self._thread = thread
        self._exchange = exchange
        self._block_size = block_size
        self._open_channel = open_channel
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, key: str, source: PrefillSource, order: PrefillOrder, begin: Callable[[], None]) -> None:
        """Fetches what it can and calls `begin`, unless `key` is cancelled before. `order.remaining_seconds` is the
        time that the request has left."""
        task = asyncio.create_task(self._fetch_and_begin(source, order, begin), name=f"fetch-{key}")
        self._tasks[key] = task
        task.add_done_callback(lambda done: self._tasks.get(key) is done and self._tasks.pop(key))

    def cancel(self, key: str) -> None:
        """Ends a transfer whose request is over. An unknown one is ignored."""
        if (task := self._tasks.pop(key, None)) is not None:
            task.cancel()

    def stop(self) -> None:
        """Ends all transfers."""
        for key in list(self._tasks):
            self.cancel(key)

    async def _fetch_and_begin(self, source: PrefillSource, order: PrefillOrder, begin: Callable[[], None]) -> None:
        seconds = min(LONGEST_SECONDS, DEADLINE_SHARE * order.remaining_seconds)
        wanted = replace(order, layout=self._exchange.layout)
        leases = TransferLeases(self._exchange)
        fetch = _Fetch(wanted, order.hashes(self._block_size), leases, Deadline.after(seconds))
        try:
            await self._fetch(source, fetch)
        except TimeoutError:
            _log.info("KV blocks did not come in time", extra={"source": source.worker_id})
        except Exception as error:  # noqa: BLE001 - whatever it was, the request begins without them
            known = isinstance(error, HeadraceError)
            facts = {"source": source.worker_id, "reason": str(error)}
            _log.warning("KV blocks could not be fetched", extra=facts, exc_info=None if known else error)
        except asyncio.CancelledError:
            self._thread.ask(leases.release)
            raise
        RECOMPUTED_BLOCKS.inc(len(fetch.hashes) - fetch.have)
        if fetch.fastest:
            self.rate.observe(fetch.fastest)
        begin()
        # The engine has the request by then, because it obeys in order.
        self._thread.ask(leases.release)

    async def _fetch(self, source: PrefillSource, fetch: _Fetch) -> None:
        """Fetches blocks, and resumes after a broken stream. Raises the HeadraceError of the last try, and
        TimeoutError."""
        fetch.have = await self._thread.call(lambda: fetch.leases.find(fetch.hashes), fetch.deadline.remaining)
        if fetch.is_done:
            return
        async with asyncio.timeout(fetch.deadline.remaining), self._open_channel(source.address) as channel:
            client = GrpcWorkerClient(channel)
            for resumes_left in reversed(range(1 + RESUME_COUNT)):
                try:
                    if await self._receive(client, fetch):
                        return
                except (Unavailable, Overloaded):
                    if not resumes_left:
                        raise
                RESUMED_TRANSFERS.inc()

    async def _receive(self, client: WorkerClient, fetch: _Fetch) -> bool:
        """Imports blocks of one stream until it ends, and returns whether no more are wanted. Raises HeadraceError
        where it breaks."""
        order = replace(fetch.order, skip_count=fetch.have, remaining_seconds=fetch.deadline.remaining)
        packets = self._packets(client, order)
        asked = time.perf_counter()
        async with aclosing(packets):
            async for packet in packets:
                count = len(packet.contents)
                hashes = fetch.hashes[fetch.have : fetch.have + count]
                if packet.first_index != fetch.have or not packet.is_intact(hashes):
                    REFUSED_BLOCKS.inc(count)
                    raise Unavailable("KV blocks arrived damaged, or are not those that were asked for")
                await self._import(fetch, hashes, packet)
                fetch.fastest = max(fetch.fastest, packet.byte_count / (time.perf_counter() - asked))
                asked = time.perf_counter()
                if fetch.is_done:
                    return True
        return False

    async def _import(self, fetch: _Fetch, hashes: list[bytes], packet: BlockPacket) -> None:
        added = await self._thread.call(lambda: fetch.leases.add(hashes, packet.contents), fetch.deadline.remaining)
        fetch.have += added
        fetch.is_full = added < len(hashes)
        RECEIVED_BLOCKS.inc(added)
        RECEIVED_BYTES.inc(packet.byte_count)

    @staticmethod
    async def _packets(client: WorkerClient, order: PrefillOrder) -> AsyncGenerator[BlockPacket, None]:
        responses = client.prefill(to_prefill_request(order), order.remaining_seconds)
        async with aclosing(responses):
            async for response in responses:
                yield to_packet(response)
