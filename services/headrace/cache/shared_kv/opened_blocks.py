"""Opens the store of KV blocks that the settings of a cache ask for."""

import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import lmdb

from headrace.cache.shared_kv.lmdb_blocks import LmdbBlocks
from headrace.cache.shared_kv.lmdb_table import LmdbTable
from headrace.cache.shared_kv.shared_kv_blocks import SharedBlocks

FOLDER = "kv"
"""Folder of the blocks in that of a cache."""

_log = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def opened_blocks(folder: Path, max_bytes: int) -> AsyncIterator[SharedBlocks | None]:
    """Opens the store in the folder of a cache, and closes it. None: there is to be none, or there cannot be one, which
    is logged."""
    blocks = _open(folder / FOLDER, max_bytes) if max_bytes else None
    try:
        yield blocks
    finally:
        if blocks is not None:
            await blocks.close()


def _open(folder: Path, max_bytes: int) -> SharedBlocks | None:
    try:
        blocks = LmdbBlocks(LmdbTable(folder, max_bytes), max_bytes)
    except (OSError, lmdb.Error) as error:
        _log.warning("workers share no KV blocks", extra={"folder": str(folder), "reason": str(error)})
        return None
    _log.info("workers share KV blocks", extra={"folder": str(folder), "found": len(blocks)})
    return blocks
