"""Follows the numbered changes of every worker's KV blocks, and notices when one is missing."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.cache.prefix_index import PrefixIndex
from headrace.kv.block_change import BlockChange
from headrace.service_clients.block_list import BlockList

MAX_WORKERS = 10_000
FORGET_SECONDS = 600.0
"""Seconds of silence after which a worker is forgotten: a living one speaks every two seconds."""
MAX_WAITING_HASHES = 200_000
"""Maximum number of hashes per worker in changes that wait for an earlier one. Changes beyond that count as missed."""
MAX_WAITING_CHANGES = 1024


@dataclass(slots=True)
class _Life:
    """Incarnation of a worker, as far as the cache knows it."""

    epoch: int
    heard: float
    """Time of its last message, in monotonic seconds."""
    address: str = ""
    number: int = 0
    """Number up to which the index holds all changes. An incarnation begins with no blocks."""
    latest: int = 0
    """Largest change number received."""
    challenger: int | None = None
    """Smaller epoch received since: a delayed message, or a new incarnation under a clock that was set back."""
    departed: bool = False
    """Whether the worker said that it stops, so that its later changes are ignored."""
    waiting: dict[int, BlockChange] = field(default_factory=dict)
    waiting_hash_count: int = 0

    @property
    def misses(self) -> bool:
        return self.challenger is not None or (self.number < self.latest and not self.departed)

    def hold(self, change: BlockChange) -> None:
        """Keeps a change until the earlier ones have arrived."""
        if change.sequence_number not in self.waiting:
            self.waiting[change.sequence_number] = change
            self.waiting_hash_count += change.hash_count
        while self.waiting_hash_count > MAX_WAITING_HASHES or len(self.waiting) > MAX_WAITING_CHANGES:
            self.release(min(self.waiting))

    def release(self, number: int) -> BlockChange:
        change = self.waiting.pop(number)
        self.waiting_hash_count -= change.hash_count
        return change


class BlockFeed:
    """Keeps the index equal to what workers hold. Applies every change once and in order; after a missed one it waits
    for the worker's list of blocks, which `restore` takes. Does no I/O."""

    def __init__(self, index: PrefixIndex, clock: Callable[[], float] = time.monotonic) -> None:
        self._index = index
        self._clock = clock
        self._lives: OrderedDict[str, _Life] = OrderedDict()
        """Ordered by silence, longest first."""

    def __len__(self) -> int:
        return len(self._lives)

    def hear(self, change: BlockChange) -> bool:
        """Applies a change, however late, repeated or out of order. Returns whether the worker's list of blocks is now
        needed."""
        life = self._lives.get(change.worker_id)
        if life is None or change.epoch > life.epoch:
            life = self._begin(change.worker_id, change.epoch)
        life.heard = self._clock()
        self._lives.move_to_end(change.worker_id)
        self._forget_silent()
        if life.departed and change.epoch == life.epoch:
            return life.misses
        life.address = change.address or life.address
        if change.epoch < life.epoch:
            life.challenger = change.epoch
            return True
        life.latest = max(life.latest, change.sequence_number)
        if change.sequence_number > life.number and change.hash_count:
            life.hold(change)
        self._catch_up(change.worker_id, life)
        return life.misses

    def misses(self, worker_id: str) -> bool:
        """Whether a change of a worker is missing, so that its list of blocks is needed."""
        life = self._lives.get(worker_id)
        return life is not None and life.misses

    def address(self, worker_id: str) -> str:
        """Returns the address at which a worker lists its blocks. Empty if it is not known."""
        life = self._lives.get(worker_id)
        return "" if life is None else life.address

    def restore(self, worker_id: str, blocks: BlockList) -> bool:
        """Replaces the index entries of a worker by its list, and applies the changes that follow it.

        Returns False for a list of another worker, or older than what is known, which is ignored."""
        life = self._lives.get(worker_id)
        if life is None or blocks.worker_id != worker_id:
            return False
        if blocks.epoch > life.epoch or blocks.epoch == life.challenger:
            address = life.address
            life = self._begin(worker_id, blocks.epoch)
            life.address = address
        if blocks.epoch != life.epoch:
            return False
        life.challenger = None
        if life.departed or blocks.sequence_number < life.number:
            return False
        self._index.replace(worker_id, blocks.model, blocks.block_hashes)
        life.number = blocks.sequence_number
        life.latest = max(life.latest, life.number)
        self._catch_up(worker_id, life)
        return True

    def give_up(self, worker_id: str) -> None:
        """Stops waiting for a list from a worker that does not answer. Its next change brings the question up again."""
        life = self._lives.get(worker_id)
        if life is not None:
            life.challenger = None

    def depart(self, worker_id: str, epoch: int) -> None:
        """Forgets the blocks of a worker that stops voluntarily, and ignores later changes of this incarnation."""
        life = self._lives.get(worker_id)
        if life is not None and life.epoch == epoch:
            self._index.forget(worker_id)
            life.departed = True
            life.waiting.clear()
            life.waiting_hash_count = 0

    def _begin(self, worker_id: str, epoch: int) -> _Life:
        self._index.forget(worker_id)
        life = self._lives[worker_id] = _Life(epoch, self._clock())
        return life

    def _catch_up(self, worker_id: str, life: _Life) -> None:
        for number in [number for number in life.waiting if number <= life.number]:
            life.release(number)
        while life.number + 1 in life.waiting:
            life.number += 1
            change = life.release(life.number)
            self._index.change(worker_id, change.model, change.stored_block_hashes, change.removed_block_hashes)

    def _forget_silent(self) -> None:
        limit = self._clock() - FORGET_SECONDS
        while self._lives:
            worker_id, life = next(iter(self._lives.items()))
            if life.heard >= limit and len(self._lives) <= MAX_WORKERS:
                return
            del self._lives[worker_id]
            self._index.forget(worker_id)
