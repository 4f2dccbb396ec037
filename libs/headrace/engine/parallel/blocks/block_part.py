"""The part of a KV block that one rank of a group has."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from headrace.engine.kv.block_store import BlockStore
from headrace.engine.parallel.shards.place import ShardPlace


@dataclass(frozen=True, slots=True)
class BlockPart:
    """Shape and size of what a rank has of each block."""

    layout: str
    """See BlockStore."""
    byte_count: int


def exchange_parts(store: Any, place: ShardPlace, own: BlockStore | None) -> tuple[BlockPart, ...]:
    """Tells the other ranks through torch's TCPStore what this one has of each block, and returns what each has, in the
    order of ranks; nothing if blocks of any rank cannot be copied. Raises RuntimeError if a rank says nothing within
    the store's timeout."""
    part = None if own is None else asdict(BlockPart(own.layout, own.block_bytes))
    store.set(_name(place.rank), json.dumps(part))
    told = [json.loads(store.get(_name(rank))) for rank in range(place.world_size)]
    return () if None in told else tuple(BlockPart(**each) for each in told)


def _name(rank: int) -> str:
    return f"blocks/{rank}"
