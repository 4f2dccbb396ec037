"""Opens the store of KV blocks that the settings of a cache ask for."""

import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import lmdb

from headrace.cache.shared_kv.lmdb_blocks import LmdbBlocks
from headrace.cache.shared_kv.lmdb_table import LmdbTable
from headrace.cache.shared_kv.shared_kv_blocks import SharedBlocks
from headrace.errors import ConfigError

FOLDER = "kv"
"""Folder of the blocks in that of a cache."""

_log = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def opened_blocks(folder: Path, max_bytes: int, url: str = "") -> AsyncIterator[SharedBlocks | None]:
    """Opens the store at an address, or else in the folder of a cache, and closes it. None: there is to be none, or
    there cannot be one, which is logged. Raises ConfigError for an address of another kind."""
    blocks: SharedBlocks | None = None
    if url:
        blocks = _connect(url)
    elif max_bytes:
        blocks = _open(folder / FOLDER, max_bytes)
    try:
        yield blocks
    finally:
        if blocks is not None:
            await blocks.close()


def _connect(url: str) -> SharedBlocks:
    # The client takes its time to import, and few caches have such a store.
    from headrace.cache.shared_kv.valkey_blocks import ValkeyBlocks

    try:
        return ValkeyBlocks(url)
    except ValueError as error:
        raise ConfigError(f"kv_store_url is no address of a store: {error}", param="kv_store_url") from None


def _open(folder: Path, max_bytes: int) -> SharedBlocks | None:
    try:
        blocks = LmdbBlocks(LmdbTable(folder, max_bytes), max_bytes)
    except (OSError, lmdb.Error) as error:
        _log.warning("workers share no KV blocks", extra={"folder": str(folder), "reason": str(error)})
        return None
    _log.info("workers share KV blocks", extra={"folder": str(folder), "found": len(blocks)})
    return blocks
