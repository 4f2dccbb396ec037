"""Index of the workers that hold each KV block. A hint: a wrong entry costs speed only."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from headrace.kv.held_prefix import HeldPrefix
from headrace.kv.kept_name import kept_name

MODEL_SIZE = 8
"""Bytes of the digest of a model's name before each hash. Keys are bytes, which the garbage collector need not visit:
the list of a large worker is indexed five times faster than with tuples."""
NOBODY: frozenset[str] = frozenset()


class PrefixIndex:
    """Maps block hashes to workers, and workers to what they hold. Bounded: the blocks that were announced longest ago
    are forgotten first."""

    def __init__(self, max_blocks: int) -> None:
        self._max_blocks = max_blocks
        self._holders: OrderedDict[bytes, frozenset[str]] = OrderedDict()
        """Names of the workers that hold a block, by model and hash. Blocks of one worker alone share one set."""
        self._held: dict[str, set[bytes]] = {}

    def __len__(self) -> int:
        return len(self._holders)

    def change(self, worker_id: str, model: str, stored: Iterable[bytes], removed: Iterable[bytes]) -> None:
        """Applies a change of one worker."""
        prefix = _prefix(model)
        for block_hash in removed:
            self._drop(prefix + block_hash, worker_id)
        self._store(worker_id, [prefix + block_hash for block_hash in stored])

    def replace(self, worker_id: str, model: str, block_hashes: Sequence[bytes]) -> None:
        """Sets the blocks that a worker holds. All others it was thought to hold are forgotten."""
        prefix = _prefix(model)
        blocks = [prefix + block_hash for block_hash in block_hashes]
        for block in self._held.get(worker_id, set()).difference(blocks):
            self._drop(block, worker_id)
        self._store(worker_id, blocks)

    def forget(self, worker_id: str) -> None:
        """Forgets everything that a worker held."""
        for block in self._held.pop(worker_id, ()):
            self._let_go(block, worker_id)

    def held(self, worker_id: str, model: str) -> set[bytes]:
        """Returns the hashes of a model's blocks that a worker is thought to hold."""
        prefix = _prefix(model)
        return {block[MODEL_SIZE:] for block in self._held.get(worker_id, ()) if block.startswith(prefix)}

    def match(self, model: str, block_hashes: Sequence[bytes]) -> dict[str, HeldPrefix]:
        """Counts the leading blocks that each worker has without a gap, for workers that have the first."""
        prefix = _prefix(model)
        in_memory: dict[str, int] = {}
        anywhere: dict[str, int] = {}
        holders = havers = frozenset(self._held)
        for count, block_hash in enumerate(block_hashes, 1):
            block = prefix + block_hash
            here = self._holders.get(block, NOBODY)
            holders &= here
            havers &= here | self._holders.get(kept_name(block), NOBODY)
            if not havers:
                break
            in_memory.update(dict.fromkeys(holders, count))
            anywhere.update(dict.fromkeys(havers, count))
        held = {worker: in_memory.get(worker, 0) for worker in anywhere}
        return {worker: HeldPrefix(held[worker], count - held[worker]) for worker, count in anywhere.items()}

    def _store(self, worker_id: str, blocks: Sequence[bytes]) -> None:
        self._held.setdefault(worker_id, set()).update(blocks)
        alone = frozenset((worker_id,))
        for block in blocks:
            holders = self._holders.get(block)
            if holders is None:
                self._holders[block] = alone
                continue
            if worker_id not in holders:
                self._holders[block] = holders | alone
            self._holders.move_to_end(block)
        while len(self._holders) > self._max_blocks:
            oldest, holders = self._holders.popitem(last=False)
            for holder in holders:
                self._held[holder].discard(oldest)

    def _drop(self, block: bytes, worker_id: str) -> None:
        if (held := self._held.get(worker_id)) is not None:
            held.discard(block)
        self._let_go(block, worker_id)

    def _let_go(self, block: bytes, worker_id: str) -> None:
        holders = self._holders.get(block, frozenset())
        if holders == {worker_id}:
            del self._holders[block]
        elif worker_id in holders:
            self._holders[block] = holders - {worker_id}


def _prefix(model: str) -> bytes:
    return blake2b(model.encode(), digest_size=MODEL_SIZE).digest()
