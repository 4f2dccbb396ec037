"""Which worker holds which KV block, from what the workers announce. A hint: a wrong entry costs speed only."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

_Block = tuple[str, bytes]
"""Model and hash."""

MAX_WORKERS = 10_000


@dataclass(slots=True)
class _Life:
    """One incarnation of a worker."""

    epoch: int
    blocks: set[_Block] = field(default_factory=set)


class PrefixIndex:
    """Maps block hashes to workers, and workers to what they hold. Bounded: the blocks that were announced longest ago
    are forgotten first, and so are workers."""

    def __init__(self, max_blocks: int) -> None:
        self._max_blocks = max_blocks
        self._holders: OrderedDict[_Block, set[str]] = OrderedDict()
        self._lives: OrderedDict[str, _Life] = OrderedDict()

    def __len__(self) -> int:
        return len(self._holders)

    def change(self, worker_id: str, epoch: int, model: str, stored: Iterable[bytes], removed: Iterable[bytes]) -> None:
        """Takes in what changed on one worker. Another epoch is another life, which begins with no blocks; a clock
        that was set back makes it a smaller one."""
        life = self._lives.get(worker_id)
        if life is None or life.epoch != epoch:
            self.forget(worker_id)
            life = self._lives[worker_id] = _Life(epoch)
        self._lives.move_to_end(worker_id)
        for block in removed:
            self._drop((model, block), worker_id)
        for block in stored:
            life.blocks.add((model, block))
            self._holders.setdefault((model, block), set()).add(worker_id)
            self._holders.move_to_end((model, block))
        while len(self._holders) > self._max_blocks:
            oldest, holders = next(iter(self._holders.items()))
            for holder in list(holders):
                self._drop(oldest, holder)
        while len(self._lives) > MAX_WORKERS:
            self.forget(next(iter(self._lives)))

    def forget(self, worker_id: str) -> None:
        """Drops everything that a worker held."""
        life = self._lives.pop(worker_id, None)
        for held in () if life is None else life.blocks:
            self._let_go(held, worker_id)

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

    def _drop(self, block: _Block, worker_id: str) -> None:
        if (life := self._lives.get(worker_id)) is not None:
            life.blocks.discard(block)
        self._let_go(block, worker_id)

    def _let_go(self, block: _Block, worker_id: str) -> None:
        holders = self._holders.get(block)
        if holders is not None:
            holders.discard(worker_id)
            if not holders:
                del self._holders[block]
