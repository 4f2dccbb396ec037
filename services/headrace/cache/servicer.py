"""CacheService: converts, calls, converts."""

import logging
from collections.abc import AsyncGenerator
from typing import Any

import grpc

from headrace import failpoints
from headrace.cache.prefix_index import PrefixIndex
from headrace.cache.response_store import ResponseStore
from headrace.cache.shared_kv.shared_kv_blocks import SharedBlocks, keys_of, name_in
from headrace.cache.stream_journals import StreamJournals
from headrace.cache.translation import to_lifetime, to_prefix_response, to_records, to_seconds, to_stream_part
from headrace.errors import NotEnabled, NotFound, PayloadTooLarge
from headrace.telemetry.traces import span
from headrace.v1 import cache_pb2 as pb
from headrace.v1 import cache_pb2_grpc

_log = logging.getLogger(__name__)
Context = grpc.aio.ServicerContext[Any, Any]


class CacheServicer(cache_pb2_grpc.CacheServiceServicer):
    """Serves a store of responses, an index, the journals of streams, and KV blocks that workers share."""

    def __init__(
        self,
        store: ResponseStore,
        index: PrefixIndex,
        journals: StreamJournals,
        lifetime: float,
        blocks: SharedBlocks | None = None,
    ) -> None:
        """`lifetime`: seconds for which a response is kept when the request does not say. `blocks`: None where workers
        share none."""
        self._blocks = blocks
        self._store = store
        self._index = index
        self._journals = journals
        self._lifetime = lifetime

    async def LookupResponse(  # noqa: N802
        self, request: pb.LookupResponseRequest, context: Context
    ) -> pb.LookupResponseResponse:
        with span("cache lookup") as current:
            value = self._store.get(request.tenant, request.key)
            current.set_attribute("headrace.cache.hit", value is not None)
        _log.debug("lookup", extra={"found": value is not None})
        if value is None:
            raise NotFound("there is no such response")
        return pb.LookupResponseResponse(value=value)

    async def StoreResponse(  # noqa: N802
        self, request: pb.StoreResponseRequest, context: Context
    ) -> pb.StoreResponseResponse:
        lifetime = to_lifetime(request) or self._lifetime
        if not self._store.put(request.tenant, request.key, request.value, lifetime):
            raise PayloadTooLarge("the response is too large for this cache")
        return pb.StoreResponseResponse()

    async def LookupPrefix(  # noqa: N802
        self, request: pb.LookupPrefixRequest, context: Context
    ) -> pb.LookupPrefixResponse:
        return to_prefix_response(self._index.match(request.model, request.block_hashes))

    async def KeepStreams(  # noqa: N802
        self, request: pb.KeepStreamsRequest, context: Context
    ) -> pb.KeepStreamsResponse:
        kept = self._journals.keep([to_stream_part(part) for part in request.parts], to_seconds(request.lifetime))
        return pb.KeepStreamsResponse(unknown_stream_ids=sorted(kept.unknown), refused_stream_ids=sorted(kept.refused))

    async def FindStream(  # noqa: N802
        self, request: pb.FindStreamRequest, context: Context
    ) -> pb.FindStreamResponse:
        found = self._journals.find(request.tenant, request.stream_id)
        if found is None:
            raise NotFound("there is no such stream")
        return pb.FindStreamResponse(record=found.record, parts=found.parts, record_age_seconds=found.record_age)

    async def LookupBlocks(  # noqa: N802
        self, request: pb.LookupBlocksRequest, context: Context
    ) -> pb.LookupBlocksResponse:
        blocks, keys = self._shared(), keys_of(request.block_layout, request.block_hashes)
        await failpoints.pause("cache.blocks")
        wanted = map(name_in, await blocks.wanted(keys))
        return pb.LookupBlocksResponse(held_block_count=await blocks.held(keys), wanted_block_hashes=wanted)

    async def StoreBlocks(  # noqa: N802
        self, request: pb.StoreBlocksRequest, context: Context
    ) -> pb.StoreBlocksResponse:
        count = await self._shared().write(to_records(request), to_seconds(request.block_compute_duration))
        return pb.StoreBlocksResponse(stored_block_count=count)

    async def FetchBlocks(  # noqa: N802
        self, request: pb.FetchBlocksRequest, context: Context
    ) -> AsyncGenerator[pb.FetchBlocksResponse, None]:
        blocks, keys = self._shared(), keys_of(request.block_layout, request.block_hashes)
        while keys:
            await failpoints.pause("cache.blocks")
            records = await blocks.read(keys)
            if not records:
                return
            yield pb.FetchBlocksResponse(records=[failpoints.damage("cache.block", record) for record in records])
            keys = keys[len(records) :]

    def _shared(self) -> SharedBlocks:
        """Raises NotEnabled where workers share no blocks."""
        if self._blocks is None:
            raise NotEnabled("this cache keeps no KV blocks: set kv_store_bytes", stage="cache")
        return self._blocks
