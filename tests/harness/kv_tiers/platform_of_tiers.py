"""Workers of several models over one store, and the prompts that they are asked."""

import random
from collections.abc import Sequence
from pathlib import Path

from tests.harness.kv_tiers.block_engine import ADAPTERS
from tests.harness.kv_tiers.demanded_blocks import BLOCK_SIZE, BlockFormat, Prompt
from tests.harness.kv_tiers.tier_cache import TierCache
from tests.harness.kv_tiers.tier_worker import Network, TierWorker

from headrace.worker.transfer.kept.slot_header import HEADER_BYTES

BLOCK_BYTES = 192
MEMORY_BLOCKS = 32
DISK_BLOCKS = 160
STORE_BYTES = 2 << 20
TENANTS = ("a", "b", "c")
TEXTS = 8
PROMPT_BLOCKS = 8
SHARED_BLOCKS = 3
"""Blocks that all texts begin with."""
FORMATS = {
    "first": BlockFormat("weights", "numbers", BLOCK_BYTES),
    "second": BlockFormat("weights", "numbers", BLOCK_BYTES),
    "other weights": BlockFormat("others", "numbers", BLOCK_BYTES),
    "other numbers": BlockFormat("weights", "others", BLOCK_BYTES),
}
"""Workers by address. The first two may exchange blocks."""
ALIKE = ("first", "second")
FOREIGN = ("other weights", "other numbers")


def texts() -> list[tuple[int, ...]]:
    """Tokens of the prompts, of which the first blocks are alike."""
    dice, shared = random.Random(9), SHARED_BLOCKS * BLOCK_SIZE
    begin = tuple(dice.randrange(1000) for _ in range(shared))
    rest = PROMPT_BLOCKS * BLOCK_SIZE + 1 - shared
    return [begin + tuple(dice.randrange(1000) for _ in range(rest)) for _ in range(TEXTS)]


class PlatformOfTiers:
    """A cache with a store, and workers with memory and a disk each. Runs on the event loop."""

    def __init__(self, folder: Path) -> None:
        self.cache = TierCache(folder / "store", STORE_BYTES)
        self.network: Network = {"cache": self.cache.service}
        disk_bytes = DISK_BLOCKS * (HEADER_BYTES + BLOCK_BYTES)
        self.workers = {
            address: TierWorker(address, made, MEMORY_BLOCKS, folder / f"disk of {address}", disk_bytes, self.network)
            for address, made in FORMATS.items()
        }
        self.texts = texts()

    def prompt(self, dice: random.Random) -> Prompt:
        """Chooses a prompt of some tenant, for some adapter."""
        adapters: Sequence[str] = ("", *ADAPTERS)
        return Prompt(dice.choice(self.texts), dice.choice(TENANTS), dice.choice(adapters))

    async def close(self) -> None:
        """Ends all services."""
        for worker in self.workers.values():
            await worker.close()
        await self.cache.close()
