"""CacheService: converts, calls, converts."""

import logging
from typing import Any

import grpc

from headrace.cache.prefix_index import PrefixIndex
from headrace.cache.response_store import ResponseStore
from headrace.cache.stream_journals import StreamJournals
from headrace.cache.translation import to_lifetime, to_prefix_response, to_seconds, to_stream_part
from headrace.errors import NotFound, PayloadTooLarge
from headrace.telemetry.traces import span
from headrace.v1 import cache_pb2 as pb
from headrace.v1 import cache_pb2_grpc

_log = logging.getLogger(__name__)
Context = grpc.aio.ServicerContext[Any, Any]


class CacheServicer(cache_pb2_grpc.CacheServiceServicer):
    """Serves one store, one index and the journals of streams."""

    def __init__(self, store: ResponseStore, index: PrefixIndex, journals: StreamJournals, lifetime: float) -> None:
        """`lifetime`: seconds for which a response is kept when the request does not say."""
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
