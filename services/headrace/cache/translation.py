"""Converts between messages and what the cache keeps."""

from collections.abc import Mapping

from headrace.kv.block_change import BlockChange
from headrace.v1.cache_pb2 import LookupPrefixResponse, PrefixMatch, StoreResponseRequest
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
    return request.lifetime.seconds + request.lifetime.nanos / 1e9 if request.HasField("lifetime") else None


def to_prefix_response(matches: Mapping[str, int]) -> LookupPrefixResponse:
    """Converts counts of leading blocks by worker id."""
    return LookupPrefixResponse(
        matches=[PrefixMatch(worker_id=worker, block_count=count) for worker, count in matches.items()]
    )
