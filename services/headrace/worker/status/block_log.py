"""Log of a worker's KV blocks, in memory and on its disk: changes are numbered, so that a reader that missed one
notices, and can ask for the whole list."""

from collections.abc import Iterator, Sequence

from headrace.engine.contract.request import BlockEvents
from headrace.kv.block_change import BlockChange
from headrace.service_clients.block_list import BlockList

MAX_HASHES = 32_768
"""Hashes per message: 0.6 MB of the 1 MB that NATS carries."""


class BlockLog:
    """Collects changes, numbers them when they are taken, and keeps the blocks that the numbered changes add up to."""

    def __init__(self, worker_id: str, epoch: int, model: str) -> None:
        self._worker_id = worker_id
        self._epoch = epoch
        self._model = model
        self._number = 0
        """Number of the latest change that was taken."""
        self._held: dict[bytes, None] = {}
        """Hashes of the blocks held after the latest change that was taken."""
        self._stored: dict[bytes, None] = {}
        self._removed: dict[bytes, None] = {}

    @property
    def pending(self) -> bool:
        """Whether there are changes that were not taken yet."""
        return bool(self._stored or self._removed)

    def collect(self, events: BlockEvents) -> None:
        """Collects changes. A block that comes and goes before they are taken leaves no trace."""
        _net(events.removed, self._removed, self._stored)
        _net(events.stored, self._stored, self._removed)

    def take_changes(self, address: str) -> list[BlockChange]:
        """Numbers the collected changes. `address` is where the worker lists its blocks.

        Returns changes that fit into a message each, in the order in which they apply; if there are none, one that only
        tells the latest number."""
        removed, stored = list(self._removed), list(self._stored)
        self._removed.clear()
        self._stored.clear()
        for block_hash in removed:
            self._held.pop(block_hash, None)
        self._held.update(dict.fromkeys(stored))
        if 0 < len(removed) + len(stored) <= MAX_HASHES:
            return [self._numbered(address, stored, removed)]
        changes = [self._numbered(address, removed=part) for part in parts_of(removed)]
        changes += [self._numbered(address, stored=part) for part in parts_of(stored)]
        return changes or [self._change(address)]

    def list_blocks(self) -> BlockList:
        """Lists the blocks as they are now, with the number of the latest change among them."""
        return BlockList(self._worker_id, self._epoch, self._model, self._number, list(self._held))

    def _numbered(self, address: str, stored: Sequence[bytes] = (), removed: Sequence[bytes] = ()) -> BlockChange:
        self._number += 1
        return self._change(address, stored, removed)

    def _change(self, address: str, stored: Sequence[bytes] = (), removed: Sequence[bytes] = ()) -> BlockChange:
        return BlockChange(
            worker_id=self._worker_id,
            epoch=self._epoch,
            model=self._model,
            sequence_number=self._number,
            address=address,
            stored_block_hashes=stored,
            removed_block_hashes=removed,
        )


def parts_of(hashes: list[bytes]) -> Iterator[list[bytes]]:
    """Splits hashes so that each part fits into a message. Yields nothing for none."""
    for start in range(0, len(hashes), MAX_HASHES):
        yield hashes[start : start + MAX_HASHES]


def _net(hashes: Sequence[bytes], gained: dict[bytes, None], opposite: dict[bytes, None]) -> None:
    for block_hash in hashes:
        if block_hash in opposite:
            del opposite[block_hash]
        else:
            gained[block_hash] = None
