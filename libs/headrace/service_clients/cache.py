"""Calls the cache."""

from collections.abc import Sequence
from typing import Protocol

import grpc

from headrace.errors import NotFound
from headrace.rpc.boundary import translated
from headrace.telemetry.call_metadata import outgoing_metadata
from headrace.v1 import cache_pb2, cache_pb2_grpc

STAGE = "cache"


class CacheClient(Protocol):
    """Every method raises HeadraceError; `timeout` is in seconds."""

    async def lookup_response(self, tenant: str, key: bytes, timeout: float) -> bytes | None: ...

    async def store_response(
        self, tenant: str, key: bytes, value: bytes, timeout: float, lifetime: float | None = None
    ) -> None:
        """Keeps a response for `lifetime` seconds. None: as long as the service is set to."""

    async def lookup_prefix(self, model: str, block_hashes: Sequence[bytes], timeout: float) -> dict[str, int]:
        """Returns the number of leading blocks that each worker holds, by worker id."""


class GrpcCacheClient:
    """CacheClient over gRPC."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub: cache_pb2_grpc.CacheServiceAsyncStub = cache_pb2_grpc.CacheServiceStub(channel)

    async def lookup_response(self, tenant: str, key: bytes, timeout: float) -> bytes | None:
        request = cache_pb2.LookupResponseRequest(tenant=tenant, key=key)
        try:
            with translated(STAGE):
                response = await self._stub.LookupResponse(request, timeout=timeout, metadata=outgoing_metadata())
        except NotFound:
            return None
        return response.value

    async def store_response(
        self, tenant: str, key: bytes, value: bytes, timeout: float, lifetime: float | None = None
    ) -> None:
        request = cache_pb2.StoreResponseRequest(tenant=tenant, key=key, value=value)
        if lifetime is not None:
            request.lifetime.FromNanoseconds(int(lifetime * 1e9))
        with translated(STAGE):
            await self._stub.StoreResponse(request, timeout=timeout, metadata=outgoing_metadata())

    async def lookup_prefix(self, model: str, block_hashes: Sequence[bytes], timeout: float) -> dict[str, int]:
        request = cache_pb2.LookupPrefixRequest(model=model, block_hashes=block_hashes)
        with translated(STAGE):
            response = await self._stub.LookupPrefix(request, timeout=timeout, metadata=outgoing_metadata())
        return {match.worker_id: match.block_count for match in response.matches}
