"""The pool of slots for states, with the snapshots of the prefix cache. Knows numbers and hashes, no tensors."""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence

from headrace.engine.kv.sequence_state import SequenceState


class StatePool:
    """Slots for running sequences, for snapshots of states behind full blocks, and for states behind draft tokens.

    A snapshot stays until its block leaves the prefix cache, or its slot is needed and it is the least recently used.
    One that a sequence is about to begin with keeps its slot. There is always a slot for each sequence that may run.
    """

    def __init__(self, running_count: int, snapshot_count: int) -> None:
        """`running_count` sequences may run; `snapshot_count` slots are there beside theirs."""
        self._slot_count = running_count + snapshot_count
        self._promised_count = running_count
        """Slots kept for sequences that may begin to run."""
        self._free = list(reversed(range(self._slot_count)))
        self._snapshots: OrderedDict[bytes, int] = OrderedDict()
        """Slots of snapshots by the hash of the block before them, the least recently used first."""
        self._pins: Counter[int] = Counter()
        self._used: set[bytes] = set()
        """Hashes of snapshots that a sequence has begun with."""

    @property
    def snapshot_count(self) -> int:
        """Snapshots that can be found."""
        return len(self._snapshots)

    def take(self) -> int:
        """Takes the slot of a sequence that begins to run. There is one for each that may."""
        self._promised_count -= 1
        return self._free.pop()

    def leave(self, slot: int) -> None:
        """Takes back the slot of a sequence that runs no more."""
        self._promised_count += 1
        self._free.append(slot)

    def give_back(self, slot: int) -> None:
        """Takes back a reserved slot."""
        self._free.append(slot)

    def reserve(self) -> int | None:
        """Takes a slot for a further state, at the expense of the least recently used snapshot if need be. None: the
        others are for sequences that may begin, or hold snapshots that some are about to begin with."""
        if len(self._free) <= self._promised_count:
            unread = (block_hash for block_hash, slot in self._snapshots.items() if not self._pins[slot])
            oldest = next(unread, None)
            if oldest is None:
                return None
            self.forget(oldest)
        return self._free.pop()

    def keep(self, block_hash: bytes, slot: int) -> None:
        """Makes the snapshot in a reserved slot findable. A second one of the same block is given back."""
        if block_hash in self._snapshots:
            self._snapshots.move_to_end(block_hash)
            self.give_back(slot)
        else:
            self._snapshots[block_hash] = slot

    def count_found(self, hashes: Sequence[bytes]) -> int:
        """Counts `hashes` up to the last one with a snapshot."""
        return next((count for count in range(len(hashes), 0, -1) if hashes[count - 1] in self._snapshots), 0)

    def pin(self, block_hash: bytes) -> int:
        """Returns the slot of a snapshot that is there, which keeps its content until `unpin`."""
        slot = self._snapshots[block_hash]
        self._snapshots.move_to_end(block_hash)
        self._used.add(block_hash)
        self._pins[slot] += 1
        return slot

    def unpin(self, slot: int) -> None:
        """Ends a claim on a snapshot. If it was forgotten meanwhile, its slot is free now."""
        self._pins[slot] -= 1
        if not self._pins[slot]:
            del self._pins[slot]
            if slot not in self._snapshots.values():
                self.give_back(slot)

    def supersede(self, block_hash: bytes) -> None:
        """Forgets a snapshot that one further on in the same text replaces, unless a sequence has begun with it."""
        if block_hash not in self._used:
            self.forget(block_hash)

    def forget(self, block_hash: bytes) -> None:
        """Forgets the snapshot of a block, if there is one."""
        slot = self._snapshots.pop(block_hash, None)
        self._used.discard(block_hash)
        if slot is not None and not self._pins[slot]:
            self.give_back(slot)

    def check_invariants(self, states: Iterable[SequenceState]) -> None:
        """Raises AssertionError unless each slot is free, or has one owner: a snapshot, or one of `states`, those of
        all running sequences."""
        held = [*states]
        pins = Counter(state.origin_slot for state in held if state.origin_slot is not None)
        if +self._pins != pins:
            raise AssertionError(f"snapshots are pinned {dict(self._pins)} times, but sequences read {dict(pins)}")
        kept = {*self._snapshots.values(), *pins}
        owned = [slot for state in held for slot in state.slots]
        if sorted([*self._free, *kept, *owned]) != list(range(self._slot_count)):
            raise AssertionError("a slot has no owner, or two")
        if len(self._free) < self._promised_count:
            raise AssertionError("a sequence that may run would find no slot")
