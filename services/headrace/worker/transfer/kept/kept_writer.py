"""KV blocks are written to the disk of a worker."""

import asyncio
from collections.abc import Sequence

from headrace.worker.transfer.kept.kept_blocks import KeptBlocks
from headrace.worker.transfer.kept.kept_metrics import LOST_BLOCKS, WRITTEN_BLOCKS


class KeptWriter:
    """Implements `BlockSink` over the file of a worker."""

    name = "disk"

    def __init__(self, kept: KeptBlocks) -> None:
        self.kept = kept

    async def wanted(self, names: Sequence[bytes]) -> list[bytes]:
        return [name for name in names if name not in self.kept]

    async def write(self, blocks: Sequence[tuple[bytes, bytes]]) -> None:
        await asyncio.get_running_loop().run_in_executor(self.kept.threads, self._put, blocks)
        WRITTEN_BLOCKS.inc(len(blocks))
        self.kept.tell()

    def note_lost(self, count: int) -> None:
        LOST_BLOCKS.inc(count)

    def _put(self, blocks: Sequence[tuple[bytes, bytes]]) -> None:
        for name, content in blocks:
            self.kept.put(name, content)
