"""The cache service's store of KV blocks, in this process."""

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

from tests.harness.kv_tiers.local_service import LocalService

from headrace.cache.servicer import CacheServicer
from headrace.cache.shared_kv.lmdb_blocks import LmdbBlocks
from headrace.cache.shared_kv.lmdb_table import LmdbTable
from headrace.v1 import cache_pb2_grpc


class FillingTable(LmdbTable):
    """Table on a disk that may be full."""

    next_error: Callable[[], Exception | None] | None = None
    """Function that returns the error of the next write, if it is to fail."""

    def put(self, records: Iterable[tuple[bytes, bytes]], seconds: float = 0.0) -> None:
        error = None if self.next_error is None else self.next_error()
        if error is not None:
            raise error
        super().put(records, seconds)


class TierCache:
    """Real servicer, table and bounds."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.service = LocalService()
        self.max_bytes = max_bytes
        self.next_error: Callable[[], Exception | None] | None = None
        self._folder = folder
        self._open()

    def fail_writes(self, next_error: Callable[[], Exception | None]) -> None:
        """Lets writes fail, as a function says before each."""
        self.next_error = self.table.next_error = next_error

    async def restart(self, *, is_empty: bool) -> None:
        """Closes the store as a process does that ends, and opens it again, without its records if so asked."""
        self.service.is_down = True
        await self.blocks.close()
        if is_empty:
            shutil.rmtree(self._folder)
        self._open()
        self.service.is_down = False

    async def close(self) -> None:
        """Closes the store."""
        self.service.is_down = True
        await self.blocks.close()

    @property
    def file_bytes(self) -> int:
        """Bytes of the store's file that are on the disk."""
        return (self._folder / "data.mdb").stat().st_blocks * 512

    def _open(self) -> None:
        self.table = FillingTable(self._folder, self.max_bytes)
        self.table.next_error = self.next_error
        self.blocks = LmdbBlocks(self.table, self.max_bytes)
        nothing = cast("Any", None)
        servicer = CacheServicer(nothing, nothing, nothing, 1.0, self.blocks)
        cache_pb2_grpc.add_CacheServiceServicer_to_server(servicer, self.service.server)
