"""Blocks of a text engine's prefix cache, for other engines."""

from collections.abc import Sequence
from hashlib import blake2b

from headrace.engine.contract.engine import EngineSpec
from headrace.engine.kv.block_lease import BlockLease
from headrace.engine.kv.block_leases import BlockLeases
from headrace.engine.kv.block_store import BlockStore
from headrace.errors.tree import InvalidRequest, Unavailable

LAYOUT_VERSION = 2
"""Number to raise when the meaning of a block's bytes changes in a way that the store's layout does not say."""


class CachedBlocks:
    """Implements the Protocol of `block_exchange.py`: knows hashes and bytes, no requests."""

    def __init__(self, spec: EngineSpec, runner_kind: str, store: BlockStore, leases: BlockLeases) -> None:
        """`runner_kind`: what computes the blocks. Two kinds may round differently."""
        self.layout = _digest(spec, runner_kind, store)
        self._store = store
        self._leases = leases

    @property
    def block_bytes(self) -> int:
        return self._store.block_bytes

    def lease(self, hashes: Sequence[bytes]) -> BlockLease:
        return self._leases.take(hashes)

    def release(self, lease: BlockLease) -> None:
        self._leases.release(lease)

    def export(self, lease: BlockLease, first: int, count: int) -> list[bytes]:
        if not self._leases.is_sound(lease):
            raise Unavailable("requests needed the memory of the blocks; compute the prompt yourself", stage="prefill")
        return self._store.read(lease.blocks[first : first + count])

    def import_blocks(self, hashes: Sequence[bytes], contents: Sequence[bytes]) -> BlockLease:
        size = self._store.block_bytes
        if len(contents) != len(hashes) or any(len(content) != size for content in contents):
            raise InvalidRequest(f"each KV block must have a hash and {size} bytes; send those of the same model")
        lease, added = self._leases.fill(hashes)
        self._store.write([lease.blocks[index] for index in added], [contents[index] for index in added])
        return lease


def _digest(spec: EngineSpec, runner_kind: str, store: BlockStore) -> str:
    adapters = sorted(spec.adapters.items())
    model = (spec.fingerprint, spec.device, spec.precision, spec.max_model_length, adapters)
    facts = (LAYOUT_VERSION, *model, runner_kind, spec.block_size, store.layout)
    return blake2b(repr(facts).encode(), digest_size=16).hexdigest()
