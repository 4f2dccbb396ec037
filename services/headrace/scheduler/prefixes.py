"""Finds the workers that already hold the beginning of a prompt."""

import contextlib

from headrace.clients.cache import CacheClient
from headrace.engine.batching.block_hash import hash_blocks
from headrace.errors import HeadraceError
from headrace.scheduler.core.model_desk import ModelDesk
from headrace.v1.scheduler_pb2 import Generation

LOOKUP_SECONDS = 0.02
MAX_BLOCKS = 512
"""Leading blocks that are asked for: to hash more would take longer than it saves."""


class Prefixes:
    """Asks the cache. Only where there is a choice between workers that keep blocks; no answer means no preference."""

    def __init__(self, cache: CacheClient) -> None:
        self._cache = cache

    def matter(self, generation: Generation, desk: ModelDesk) -> bool:
        """Whether it makes a difference who holds the prompt."""
        size = _block_size(desk)
        return bool(size) and len(desk.fleet) > 1 and len(generation.prompt_token_ids) >= size

    async def held(self, generation: Generation, desk: ModelDesk) -> dict[str, int]:
        """Leading blocks of the prompt that each worker holds, by worker id."""
        size = _block_size(desk)
        tokens = tuple(generation.prompt_token_ids[: MAX_BLOCKS * size])
        hashes = hash_blocks(tokens, size, generation.cache_salt, generation.adapter)
        with contextlib.suppress(HeadraceError):
            return await self._cache.lookup_prefix(generation.model, hashes, LOOKUP_SECONDS)
        return {}


def _block_size(desk: ModelDesk) -> int:
    return 0 if desk.last_report is None else desk.last_report.block_size
