"""KV blocks that a disk has."""

import asyncio
import logging
import time

from headrace.worker.transfer.block_packet import BlockPacket
from headrace.worker.transfer.fetching.block_search import BlockSearch
from headrace.worker.transfer.fetching.fetched_tokens import Tier
from headrace.worker.transfer.fetching.transfer_rate import TransferRate
from headrace.worker.transfer.kept.kept_blocks import KeptBlocks
from headrace.worker.transfer.kept.kept_metrics import READ_BLOCKS

BATCH_BLOCKS = 16
"""Blocks that are read at a time."""
PATIENCE_SECONDS = 1.0
"""Longest time that a batch may take: computing it would not take much longer."""
SUSPENDED_SECONDS = 30.0
"""Time for which a disk that was too slow is not asked again."""

_log = logging.getLogger(__name__)


class KeptSource:
    """The file of this worker."""

    name = "disk"
    tier: Tier = "disk"

    def __init__(self, kept: KeptBlocks) -> None:
        self.rate = TransferRate()
        self._kept = kept
        self._suspended_until = 0.0

    async def find(self, search: BlockSearch) -> None:
        """Reads blocks until one is missing. See `BlockSource`."""
        while not search.is_over and time.monotonic() >= self._suspended_until:
            names = search.missing[:BATCH_BLOCKS]
            started = time.monotonic()
            reading = asyncio.get_running_loop().run_in_executor(self._kept.threads, self._kept.get, names)
            try:
                async with asyncio.timeout(min(PATIENCE_SECONDS, search.deadline.remaining)):
                    contents = await reading
            except TimeoutError:
                self._suspended_until = time.monotonic() + SUSPENDED_SECONDS
                _log.warning("the disk of KV blocks is too slow, and not asked for a while")
                raise
            self._kept.tell()
            if contents:
                self.rate.observe(sum(map(len, contents)) / (time.monotonic() - started))
                found = names[: len(contents)]
                READ_BLOCKS.inc(await search.add(BlockPacket.of(search.found_count, found, contents)))
            if len(contents) < len(names):
                return
