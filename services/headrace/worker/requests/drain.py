"""End of a worker's work: nothing new, and what still runs moves to other workers."""

import asyncio
import time

from headrace.domain.deadline import Deadline
from headrace.lifecycle import wait_at_most
from headrace.worker.requests.runtime import Runtime
from headrace.worker.transfer.block_exports import BlockExports

QUIET_SECONDS = 0.5
"""Seconds without a transfer after which all moved requests have fetched their KV blocks, or never will."""
LOOK_SECONDS = 0.05


async def drain(runtime: Runtime, patience: float, deadline: Deadline) -> None:
    """Refuses new requests, and moves the running ones if they have not ended after `patience` seconds. Other workers
    may fetch their KV blocks until the deadline."""
    runtime.refuse_new()
    await wait_at_most(runtime.sessions.emptied, min(patience, deadline.remaining))
    moved_count = runtime.move_all()
    if runtime.transfers.exports is not None:
        await _until_fetched(runtime.transfers.exports, QUIET_SECONDS if moved_count else 0.0, deadline)
    runtime.close_outboxes()


async def _until_fetched(exports: BlockExports, quiet_seconds: float, deadline: Deadline) -> None:
    """Waits until other workers have fetched no KV blocks for so long."""
    last_busy = time.monotonic()
    while (len(exports) or time.monotonic() - last_busy < quiet_seconds) and not deadline.expired:
        await asyncio.sleep(min(LOOK_SECONDS, deadline.remaining))
        if len(exports):
            last_busy = time.monotonic()
