"""Calls a cache about the KV blocks that workers share."""

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

import grpc

from headrace.rpc.boundary import translated
from headrace.v1 import cache_pb2, cache_pb2_grpc

STAGE = "cache"


class StoredBlocksClient(Protocol):
    """KV blocks by layout and name. Every method raises HeadraceError; `timeout` is in seconds."""

    async def lookup_blocks(self, layout: str, names: Sequence[bytes], timeout: float) -> tuple[int, list[bytes]]:
        """Returns the number of blocks at the beginning of `names` that the cache has, and the names of the ones that
        it would keep."""

    async def store_blocks(
        self, layout: str, records: Sequence[tuple[bytes, bytes]], seconds: float, timeout: float
    ) -> int:
        """Hands over records by the names of their blocks. `seconds`: time in which one of them is computed; 0 if it is
        not known. Returns the number that was kept."""

    def fetch_blocks(self, layout: str, names: Sequence[bytes], timeout: float) -> AsyncGenerator[list[bytes], None]:
        """Yields the records of the blocks at the beginning of `names` that the cache has. Closing the generator ends
        the call."""


class GrpcStoredBlocksClient:
    """StoredBlocksClient over gRPC."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub: cache_pb2_grpc.CacheServiceAsyncStub = cache_pb2_grpc.CacheServiceStub(channel)

    async def lookup_blocks(self, layout: str, names: Sequence[bytes], timeout: float) -> tuple[int, list[bytes]]:
        request = cache_pb2.LookupBlocksRequest(block_layout=layout, block_hashes=names)
        with translated(STAGE):
            response = await self._stub.LookupBlocks(request, timeout=timeout)
        return response.held_block_count, list(response.wanted_block_hashes)

    async def store_blocks(
        self, layout: str, records: Sequence[tuple[bytes, bytes]], seconds: float, timeout: float
    ) -> int:
        request = cache_pb2.StoreBlocksRequest(block_layout=layout)
        for name, record in records:
            # A list of messages would be copied once more.
            request.blocks.add(block_hash=name, record=record)
        request.block_compute_duration.FromNanoseconds(int(seconds * 1e9))
        with translated(STAGE):
            response = await self._stub.StoreBlocks(request, timeout=timeout)
        return response.stored_block_count

    async def fetch_blocks(
        self, layout: str, names: Sequence[bytes], timeout: float
    ) -> AsyncGenerator[list[bytes], None]:
        with translated(STAGE):
            call = self._stub.FetchBlocks(
                cache_pb2.FetchBlocksRequest(block_layout=layout, block_hashes=names), timeout=timeout
            )
            try:
                async for response in call:
                    yield list(response.records)
            finally:
                call.cancel()
