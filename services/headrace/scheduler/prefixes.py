"""Finds the workers that hold KV blocks of a prompt."""

import contextlib

from headrace.errors import HeadraceError
from headrace.kv.block_hash import hash_blocks
from headrace.kv.prompt import Prompt
from headrace.scheduler.core.model_desk import ModelDesk
from headrace.service_clients.cache import CacheClient

LOOKUP_SECONDS = 0.02
MAX_BLOCKS = 512
"""Maximum number of leading blocks to look up: to hash more would take longer than it saves."""


class Prefixes:
    """Asks the cache, if there is a choice between workers that keep blocks. No answer means no preference."""

    def __init__(self, cache: CacheClient) -> None:
        self._cache = cache

    def matter(self, prompt_token_count: int, desk: ModelDesk) -> bool:
        """Whether a lookup can change which worker gets a prompt of this length."""
        size = _block_size(desk)
        return bool(size) and len(desk.fleet) > 1 and prompt_token_count >= size

    async def held(self, prompt: Prompt, desk: ModelDesk) -> dict[str, int]:
        """Returns the leading blocks of a prompt that each worker holds, by worker id."""
        size = _block_size(desk)
        tokens = prompt.token_ids[: MAX_BLOCKS * size]
        hashes = hash_blocks(tokens, size, prompt.cache_salt, prompt.adapter)
        with contextlib.suppress(HeadraceError):
            return await self._cache.lookup_prefix(prompt.model, hashes, LOOKUP_SECONDS)
        return {}


def _block_size(desk: ModelDesk) -> int:
    return 0 if desk.last_report is None else desk.last_report.block_size
