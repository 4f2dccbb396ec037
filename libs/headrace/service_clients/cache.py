"""Calls the cache."""

from collections.abc import Sequence
from typing import Protocol

import grpc

from headrace.domain.kept_parts import KeptParts
from headrace.domain.kept_stream import KeptStream
from headrace.domain.stream_part import StreamPart
from headrace.errors import NotFound
from headrace.kv.held_prefix import HeldPrefix
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

    async def lookup_prefix(self, model: str, block_hashes: Sequence[bytes], timeout: float) -> dict[str, HeldPrefix]:
        """Returns the leading blocks that each worker has, by worker id."""


class JournalClient(Protocol):
    """Journals of streams. Every method raises HeadraceError; `timeout` is in seconds."""

    async def keep_streams(self, parts: Sequence[StreamPart], timeout: float, lifetime: float) -> KeptParts:
        """Adds to the journals of streams, at most one part to each, which then live for `lifetime` seconds."""

    async def find_stream(self, tenant: str, stream_id: str, timeout: float) -> KeptStream | None:
        """Returns the journal of a stream, if there is one."""


class WholeCacheClient(CacheClient, JournalClient, Protocol):
    """Everything that a cache does."""


class GrpcCacheClient:
    """WholeCacheClient over gRPC."""

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

    async def lookup_prefix(self, model: str, block_hashes: Sequence[bytes], timeout: float) -> dict[str, HeldPrefix]:
        request = cache_pb2.LookupPrefixRequest(model=model, block_hashes=block_hashes)
        with translated(STAGE):
            response = await self._stub.LookupPrefix(request, timeout=timeout, metadata=outgoing_metadata())
        return {one.worker_id: HeldPrefix(one.block_count, one.kept_block_count) for one in response.matches}

    async def keep_streams(self, parts: Sequence[StreamPart], timeout: float, lifetime: float) -> KeptParts:
        request = cache_pb2.KeepStreamsRequest(parts=map(_to_message, parts))
        request.lifetime.FromNanoseconds(int(lifetime * 1e9))
        with translated(STAGE):
            response = await self._stub.KeepStreams(request, timeout=timeout, metadata=outgoing_metadata())
        return KeptParts(frozenset(response.unknown_stream_ids), frozenset(response.refused_stream_ids))

    async def find_stream(self, tenant: str, stream_id: str, timeout: float) -> KeptStream | None:
        request = cache_pb2.FindStreamRequest(tenant=tenant, stream_id=stream_id)
        try:
            with translated(STAGE):
                response = await self._stub.FindStream(request, timeout=timeout, metadata=outgoing_metadata())
        except NotFound:
            return None
        return KeptStream(response.record, tuple(response.parts), response.record_age_seconds)


def _to_message(part: StreamPart) -> cache_pb2.StreamPart:
    return cache_pb2.StreamPart(
        tenant=part.tenant,
        stream_id=part.stream_id,
        record=part.record,
        first_index=part.first_index,
        token_count=part.token_count,
        tokens=part.tokens,
    )
