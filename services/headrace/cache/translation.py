"""Converts between messages and what the cache keeps."""

from collections.abc import Mapping

from google.protobuf.duration_pb2 import Duration

from headrace.cache.shared_kv.shared_kv_blocks import MAX_RECORD_BYTES, keys_of
from headrace.domain.stream_part import StreamPart
from headrace.errors import PayloadTooLarge
from headrace.kv.block_change import BlockChange
from headrace.kv.held_prefix import HeldPrefix
from headrace.v1 import cache_pb2
from headrace.v1.cache_pb2 import LookupPrefixResponse, PrefixMatch, StoreBlocksRequest, StoreResponseRequest
from headrace.v1.events_pb2 import BlocksChanged


def to_block_change(event: BlocksChanged) -> BlockChange:
    """Converts what a worker published."""
    return BlockChange(
        worker_id=event.worker_id,
        epoch=event.epoch,
        model=event.model,
        sequence_number=event.sequence_number,
        address=event.address,
        stored_block_hashes=tuple(event.stored_block_hashes),
        removed_block_hashes=tuple(event.removed_block_hashes),
    )


def to_lifetime(request: StoreResponseRequest) -> float | None:
    """Returns the seconds for which a response is to be kept; None where the request does not say."""
    return to_seconds(request.lifetime) if request.HasField("lifetime") else None


def to_seconds(given: Duration) -> float:
    """Converts a duration."""
    return given.seconds + given.nanos / 1e9


def to_stream_part(part: cache_pb2.StreamPart) -> StreamPart:
    """Converts the growth of a journal."""
    return StreamPart(part.tenant, part.stream_id, part.record, part.first_index, part.token_count, part.tokens)


def to_prefix_response(matches: Mapping[str, HeldPrefix]) -> LookupPrefixResponse:
    """Converts counts of leading blocks by worker id."""
    return LookupPrefixResponse(
        matches=[
            PrefixMatch(worker_id=worker, block_count=held.in_memory, kept_block_count=held.on_disk)
            for worker, held in matches.items()
        ]
    )


def to_records(request: StoreBlocksRequest) -> list[tuple[bytes, bytes]]:
    """Converts blocks to be kept, each to its key and its record. Raises InvalidRequest."""
    if any(len(block.record) > MAX_RECORD_BYTES for block in request.blocks):
        raise PayloadTooLarge(f"a record of a KV block has at most {MAX_RECORD_BYTES} bytes")
    keys = keys_of(request.block_layout, [block.block_hash for block in request.blocks])
    return list(zip(keys, (block.record for block in request.blocks), strict=True))
