"""Which worker holds which KV block. A hint: a wrong entry costs speed only."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

_Block = tuple[str, bytes]
"""Model and hash."""


class PrefixIndex:
    """Maps block hashes to workers, and workers to what they hold. Bounded: the blocks that were announced longest ago
    are forgotten first."""

    def __init__(self, max_blocks: int) -> None:
        self._max_blocks = max_blocks
        self._holders: OrderedDict[_Block, set[str]] = OrderedDict()
        self._held: dict[str, set[_Block]] = {}

    def __len__(self) -> int:
        return len(self._holders)

    def change(self, worker_id: str, model: str, stored: Iterable[bytes], removed: Iterable[bytes]) -> None:
        """Takes in what changed on one worker."""
        for block_hash in removed:
            self._drop((model, block_hash), worker_id)
        held = self._held.setdefault(worker_id, set())
        for block_hash in stored:
            block = (model, block_hash)
            held.add(block)
            self._holders.setdefault(block, set()).add(worker_id)
            self._holders.move_to_end(block)
        while len(self._holders) > self._max_blocks:
            oldest, holders = next(iter(self._holders.items()))
            for holder in list(holders):
                self._drop(oldest, holder)

    def replace(self, worker_id: str, model: str, block_hashes: Sequence[bytes]) -> None:
        """Takes in all that one worker holds. Whatever else it was thought to hold is forgotten."""
        listed = {(model, block_hash) for block_hash in block_hashes}
        for block in self._held.get(worker_id, set()) - listed:
            self._drop(block, worker_id)
        self.change(worker_id, model, block_hashes, ())

    def forget(self, worker_id: str) -> None:
        """Drops everything that a worker held."""
        for block in self._held.pop(worker_id, ()):
            self._let_go(block, worker_id)

    def held(self, worker_id: str) -> set[tuple[str, bytes]]:
        """Model and hash of every block that a worker is thought to hold."""
        return set(self._held.get(worker_id, ()))

    def match(self, model: str, block_hashes: Sequence[bytes]) -> dict[str, int]:
        """By worker: how many leading blocks it holds without a gap. Only workers that hold the first."""
        matched: dict[str, int] = {}
        alive: set[str] | None = None
        for index, block_hash in enumerate(block_hashes):
            holders = self._holders.get((model, block_hash), set())
            alive = set(holders) if alive is None else alive & holders
            if not alive:
                break
            matched.update(dict.fromkeys(alive, index + 1))
        return matched

    def _drop(self, block: _Block, worker_id: str) -> None:
        if (held := self._held.get(worker_id)) is not None:
            held.discard(block)
        self._let_go(block, worker_id)

    def _let_go(self, block: _Block, worker_id: str) -> None:
        holders = self._holders.get(block)
        if holders is not None:
            holders.discard(worker_id)
            if not holders:
                del self._holders[block]
