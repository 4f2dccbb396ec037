"""Check that every tier serves blocks after faults have ended."""

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable

from tests.harness.kv_tiers.demanded_blocks import BLOCK_SIZE, Prompt
from tests.harness.kv_tiers.platform_of_tiers import ALIKE, PROMPT_BLOCKS, PlatformOfTiers
from tests.harness.kv_tiers.tier_worker import TierWorker

from headrace.kv.block_hash import hash_blocks

POLL_SECONDS = 0.01
TOKENS = PROMPT_BLOCKS * BLOCK_SIZE


async def lost_tiers(platform: PlatformOfTiers, seconds: float) -> list[str]:
    """Has a prompt computed that no tier knows, and asks for it until it has come from each tier. Returns the tiers
    from which it did not, for `seconds` each."""
    prompt = Prompt(tuple(range(5000, 5000 + TOKENS + 1)), "after the faults")
    names = hash_blocks(prompt.token_ids[:-1], BLOCK_SIZE, prompt.tenant)
    first, second = (platform.workers[address] for address in ALIKE)
    keys = [first.layout.encode() + name for name in names]
    cache, lost = platform.cache, []
    await first.ask(prompt)
    if not await _until(lambda: all(name in first.kept for name in names), seconds):
        lost.append("disk, written")
    if not await _until(lambda: len(cache.table.read(keys)) == len(keys), seconds):
        lost.append("store, written")
    if not await _serves(lambda: _from_disk(first, prompt), seconds):
        lost.append("disk, read")
    if not await _serves(lambda: _from_peer(second, first, prompt), seconds):
        lost.append("worker")
    if not await _serves(lambda: _from_store(second, prompt), seconds):
        lost.append("store, read")
    await cache.restart(is_empty=True)
    await _forget(first)
    await first.ask(prompt)
    if not await _until(lambda: len(cache.table.read(keys)) == len(keys), seconds):
        lost.append("store, written after it was emptied")
    return lost


async def _from_disk(worker: TierWorker, prompt: Prompt) -> bool:
    await worker.restart()
    return (await worker.ask(prompt)).fetched.disk == TOKENS


async def _from_peer(worker: TierWorker, peer: TierWorker, prompt: Prompt) -> bool:
    await peer.ask(prompt)
    await _forget(worker)
    return (await worker.ask(prompt, peer.address)).fetched.worker == TOKENS


async def _from_store(worker: TierWorker, prompt: Prompt) -> bool:
    await _forget(worker)
    return (await worker.ask(prompt)).fetched.store == TOKENS


async def _forget(worker: TierWorker) -> None:
    """Restarts a worker with an empty memory and an empty disk."""
    await worker.close()
    shutil.rmtree(worker.folder)
    await worker.restart()


async def _serves(attempt: Callable[[], Awaitable[bool]], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not await attempt():
        if time.monotonic() > deadline:
            return False
    return True


async def _until(is_so: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(POLL_SECONDS)
    return True
