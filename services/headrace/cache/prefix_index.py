"""Which worker holds which KV block, from what the workers announce. A hint: a wrong entry costs speed only."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence


class PrefixIndex:
    """Maps block hashes to workers. Bounded: the blocks that were announced longest ago are forgotten first."""

    def __init__(self, max_blocks: int) -> None:
        self._max_blocks = max_blocks
        self._holders: OrderedDict[tuple[str, bytes], set[str]] = OrderedDict()
        self._epochs: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._holders)

    def change(self, worker_id: str, epoch: int, model: str, stored: Iterable[bytes], removed: Iterable[bytes]) -> None:
        """Takes in what changed on one worker. News of an older incarnation is ignored."""
        if epoch < self._epochs.get(worker_id, 0):
            return
        if epoch > self._epochs.get(worker_id, 0):
            self.forget(worker_id)
            self._epochs[worker_id] = epoch
        for block in removed:
            self._drop((model, block), worker_id)
        for block in stored:
            self._holders.setdefault((model, block), set()).add(worker_id)
            self._holders.move_to_end((model, block))
        while len(self._holders) > self._max_blocks:
            self._holders.popitem(last=False)

    def forget(self, worker_id: str) -> None:
        """Drops everything that a worker held."""
        for key in [key for key, holders in self._holders.items() if worker_id in holders]:
            self._drop(key, worker_id)

    def match(self, model: str, block_hashes: Sequence[bytes]) -> dict[str, int]:
        """By worker: how many leading blocks it holds without a gap. Only workers that hold the first."""
        matched: dict[str, int] = {}
        alive: set[str] | None = None
        for index, block in enumerate(block_hashes):
            holders = self._holders.get((model, block), set())
            alive = set(holders) if alive is None else alive & holders
            if not alive:
                break
            matched.update(dict.fromkeys(alive, index + 1))
        return matched

    def _drop(self, key: tuple[str, bytes], worker_id: str) -> None:
        holders = self._holders.get(key)
        if holders is not None:
            holders.discard(worker_id)
            if not holders:
                del self._holders[key]
