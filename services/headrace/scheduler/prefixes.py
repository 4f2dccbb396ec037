"""Finds the workers that hold KV blocks of a prompt."""

import asyncio
import contextlib
import math

from headrace.errors import HeadraceError
from headrace.kv.block_hash import hash_blocks
from headrace.kv.held_prefix import HeldPrefix
from headrace.kv.prompt import Prompt
from headrace.scheduler.core.model_desk import ModelDesk
from headrace.service_clients.cache import CacheClient

MIN_LOOKUP_SECONDS = 0.02
MAX_LOOKUP_SECONDS = 0.25
LOOKUP_SHARE = 0.1
"""Part of the time to compute a prompt that its lookup may take, between the two bounds: where a cache hangs, a first
token comes later by no more; where it is only slow, the blocks are still found."""
FEW_BLOCKS = 512
"""Blocks that are hashed in a millisecond. More are hashed off the event loop."""
MAX_BLOCKS = 8192
"""Maximum number of leading blocks to look up: 131,072 tokens in blocks of 16, which takes a fiftieth of a second."""
LONG_PROMPT = 1024
"""Tokens from which a prompt is looked up where there is only one worker: what that holds of it decides when its first
token comes, and whether it is refused because that would be too late."""


class Prefixes:
    """Asks the cache which workers hold the beginning of a prompt. No answer means no preference."""

    def __init__(self, cache: CacheClient) -> None:
        self._cache = cache

    def matter(self, prompt_token_count: int, desk: ModelDesk) -> bool:
        """Whether a lookup can change which worker gets a prompt of this length, or whether it is refused."""
        size = _block_size(desk)
        return bool(size) and prompt_token_count >= (size if len(desk.fleet) > 1 else max(size, LONG_PROMPT))

    async def held(self, prompt: Prompt, desk: ModelDesk) -> dict[str, HeldPrefix]:
        """Returns the leading blocks of a prompt that each worker has, by worker id."""
        size = _block_size(desk)
        asked = prompt.token_ids[: MAX_BLOCKS * size], size, prompt.cache_salt, prompt.adapter
        count = len(asked[0]) // size
        hashes = hash_blocks(*asked) if count <= FEW_BLOCKS else await asyncio.to_thread(hash_blocks, *asked)
        with contextlib.suppress(HeadraceError):
            return await self._cache.lookup_prefix(prompt.model, hashes, _lookup_seconds(len(prompt.token_ids), desk))
        return {}


def _block_size(desk: ModelDesk) -> int:
    return 0 if desk.last_report is None else desk.last_report.block_size


def _lookup_seconds(token_count: int, desk: ModelDesk) -> float:
    rate = max((worker.prefill_rate for worker in desk.fleet.workers.values()), default=math.inf)
    return min(max(LOOKUP_SHARE * token_count / rate, MIN_LOOKUP_SECONDS), MAX_LOOKUP_SECONDS)
