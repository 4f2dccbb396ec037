"""Remembered responses: a sequence that gives the same tokens every time is computed once."""

import hashlib
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

from google.protobuf.message import DecodeError

from headrace.errors import HeadraceError
from headrace.gateway.delivery.token_stream import TokenStream
from headrace.gateway.delivery.translation import to_response
from headrace.gateway.job.sequence_request import SequenceRequest
from headrace.gateway.job.translation import to_sampling_params
from headrace.gateway.timing.request_metrics import CACHE_HITS, CACHE_MISSES
from headrace.gateway.timing.stopwatch import CACHE
from headrace.gateway.timing.token_meter import TokenMeter
from headrace.service_clients.cache import CacheClient
from headrace.v1.worker_pb2 import TokenDelta

CACHE_TIMEOUT = 0.25
"""Seconds that the response cache may take. Without an answer, the request runs as if there were no cache."""

_log = logging.getLogger(__name__)


class ResponseMemory:
    """Asks the cache before a sequence runs, and reports the result to it."""

    def __init__(self, cache: CacheClient) -> None:
        self._cache = cache

    async def deltas(self, sequence: SequenceRequest, stream: TokenStream) -> AsyncGenerator[TokenDelta, None]:
        """Yields the deltas of a stream, or the remembered delta, in which case nothing is computed."""
        key = cache_key(sequence)
        known = await self._recall(sequence, key)
        _note(sequence, is_hit=known is not None)
        if known is not None:
            TokenMeter(sequence.model.model, len(sequence.prompt_token_ids)).count(len(known.token_ids))
            yield known
            return
        received: list[TokenDelta] = []
        async with aclosing(stream.deltas()) as deltas:
            async for delta in deltas:
                received.append(delta)
                # Stored before the last delta is handed on, because its reader may stop reading.
                if delta.finish_reason:
                    await self._remember(sequence, key, to_response(received))
                yield delta

    async def _recall(self, sequence: SequenceRequest, key: bytes) -> TokenDelta | None:
        try:
            value = await self._cache.lookup_response(sequence.envelope.tenant.name, key, CACHE_TIMEOUT)
        except HeadraceError as error:
            _log.info("the cache did not answer", extra={"error": error.message})
            return None
        try:
            return None if value is None else TokenDelta.FromString(value)
        except DecodeError:
            _log.warning("the cache returned no valid response", extra={"sequence": sequence.request_id})
            return None

    async def _remember(self, sequence: SequenceRequest, key: bytes, response: bytes) -> None:
        try:
            await self._cache.store_response(sequence.envelope.tenant.name, key, response, CACHE_TIMEOUT)
        except HeadraceError as error:
            _log.info("the cache did not keep a response", extra={"error": error.message})


def _note(sequence: SequenceRequest, *, is_hit: bool) -> None:
    """Notes the answer of the cache. A request of several sequences hit if each of them did."""
    record = sequence.envelope.record
    record.stopwatch.lap(CACHE)
    record.response_cache = "hit" if is_hit and record.response_cache != "miss" else "miss"
    (CACHE_HITS if is_hit else CACHE_MISSES).labels(model=sequence.model.model).inc()


def is_remembered(sequence: SequenceRequest) -> bool:
    """Whether the sequence may be remembered and gives the same tokens every time."""
    return sequence.use_cache and (sequence.embeds or _is_deterministic(sequence))


def _is_deterministic(sequence: SequenceRequest) -> bool:
    return sequence.sampling.temperature == 0


def cache_key(sequence: SequenceRequest) -> bytes:
    """Digest of everything that determines the tokens. Stop texts only truncate them, so they are not part of it."""
    digest = hashlib.blake2b(sequence.model.model.encode() + b"\0", digest_size=32)
    digest.update((b"embedding " if sequence.embeds else b"text ") + sequence.model.fingerprint.encode() + b"\0")
    params = to_sampling_params(sequence.sampling).SerializeToString(deterministic=True)
    for part in (params, sequence.cache_salt.encode()):
        digest.update(len(part).to_bytes(4, "little") + part)
    digest.update(b"".join(token.to_bytes(4, "little") for token in sequence.prompt_token_ids))
    return digest.digest()
