"""The Protocol of engines whose KV blocks can be copied to another engine, and from it."""

from collections.abc import Sequence
from typing import Protocol

from headrace.engine.contract.engine import Engine
from headrace.engine.kv.block_lease import BlockLease


class BlockExchange(Protocol):
    """Contents of the prefix cache, by chained hashes. Nothing else distinguishes an imported block from one computed
    locally. For the engine's thread only, between two steps."""

    @property
    def layout(self) -> str:
        """Digest of all that must agree for a block to mean the same in two engines: the model's fingerprint, its
        adapters, sizes and number formats."""

    @property
    def block_bytes(self) -> int:
        """Size of the content of a block, in bytes."""

    def lease(self, hashes: Sequence[bytes]) -> BlockLease:
        """Takes a lease on the longest run of cached blocks at the beginning of `hashes`, which may be empty."""

    def release(self, lease: BlockLease) -> None:
        """Ends a lease. Its blocks stay in the prefix cache until they are reused. Does nothing the second time."""

    def export(self, lease: BlockLease, first: int, count: int) -> list[bytes]:
        """Copies the contents of `count` blocks of a lease from number `first` on. Raises Unavailable if the lease does
        not hold any more."""

    def import_blocks(self, hashes: Sequence[bytes], contents: Sequence[bytes]) -> BlockLease:
        """Adds blocks to the prefix cache, in the order of their chain, and leases them. Blocks that are there already
        are leased as they are. Takes free memory only: where it ends, the lease is shorter than `hashes`. Raises
        InvalidRequest for a content of another size."""


def exchange_of(engine: Engine) -> BlockExchange | None:
    """Returns the exchange of an engine; None where its blocks cannot be copied."""
    exchange: BlockExchange | None = getattr(engine, "exchange", None)
    return exchange
